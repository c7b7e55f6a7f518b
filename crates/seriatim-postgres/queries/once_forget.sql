-- Forgets a signal, if this attempt is its last one.
delete from seriatim.once where processor = $1 and id = $2 and attempt = $3 returning true
