-- The sessions of all hosts.
select session from seriatim_host
