-- How many consumers a capture has.
select count(*) from seriatim.consumer where capture = $1
