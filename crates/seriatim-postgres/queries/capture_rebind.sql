-- A capture watches another table from now on: the one that it watched was dropped and made anew.
update seriatim.capture set relation = $2, key = $3 where id = $1
