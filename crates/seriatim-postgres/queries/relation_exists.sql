-- Whether there is a relation of this name.
select to_regclass($1) is not null
