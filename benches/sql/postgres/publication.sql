-- The relay's publication.
select publication from seriatim.relay
