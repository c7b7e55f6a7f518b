-- The tables whose logs were made by SQL.
select l.watched::text from seriatim.log l where not l.by_program order by 1
