-- A fingerprint of who owns what, who asked for what, and who is there: the same as long as nothing of that changes.
select moved, (select group_concat(session) from seriatim_host) from seriatim_store
