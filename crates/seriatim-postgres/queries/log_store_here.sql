-- Whether the store $1 is in this database.
select exists (select 1 from seriatim.store where id = $1)
