-- A consumer has read all existing rows: from now on it needs nothing to find a row's changes.
update seriatim.consumer set existing = -1 where id = $1 and existing >= 0
