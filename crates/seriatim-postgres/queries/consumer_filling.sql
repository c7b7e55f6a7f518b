-- Whether somebody who consumes this capture began with the rows that existed.
select exists (select 1 from seriatim.consumer where capture = $1 and existing >= 0)
