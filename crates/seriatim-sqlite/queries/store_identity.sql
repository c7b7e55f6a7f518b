-- Who this store is.
select id from seriatim_store
