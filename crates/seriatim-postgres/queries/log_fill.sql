-- A template ($2) filled for the log of a table ($1).
select seriatim.log_sql(l, $2) from seriatim.log l where l.watched::oid = $1
