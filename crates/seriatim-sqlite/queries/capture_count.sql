-- How many captures the file has.
select count(*) from seriatim_capture
