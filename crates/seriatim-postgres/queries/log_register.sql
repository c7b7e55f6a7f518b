-- Registers a consumer of a log, and says after which number it begins.
select seriatim.log_register($1::oid::regclass, $2, $3)
