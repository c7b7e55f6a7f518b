-- Takes a log out that this program made and nobody consumes any more.
select seriatim.log_drop(l.watched::oid) from seriatim.log l
where l.watched::oid = $1 and l.by_program
    and not exists (select 1 from seriatim.log_consumer c where c.log = l.id)
