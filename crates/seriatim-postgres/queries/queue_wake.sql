-- Has waiting workers look at once.
select seriatim.queue_wake($1)::text
