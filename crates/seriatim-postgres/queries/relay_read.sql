-- The relay: its slot and publication, whose log it reads, how far it is, and why nobody may go on.
select slot, publication, foreign_publication, system, timeline, epoch, committed::text, passed::text, fault from seriatim.relay
