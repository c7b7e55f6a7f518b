-- Takes a log out.
select seriatim.log_drop($1)
