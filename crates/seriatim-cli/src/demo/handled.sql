-- How many changes the handler has noted.
select count(*) from handled
