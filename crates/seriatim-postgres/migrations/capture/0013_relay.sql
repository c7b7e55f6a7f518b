-- Journals that a relay fills from the server's own log, in place of triggers.
alter table seriatim.capture add column writer text not null default 'triggers' check (writer in ('triggers', 'relay'));
alter table seriatim.capture drop constraint capture_kind_relation_key_key;
alter table seriatim.capture add constraint capture_once unique (kind, relation, key, writer);

-- The relay's slot, its publication, and how far it is. There is one for all journals that it fills. Each append locks the row, so
-- that one relay appends at a time, and names its epoch, so that a former one is refused.
create table seriatim.relay (
    one boolean primary key default true check (one),
    slot text not null,
    publication text not null,
    -- The publication was there before: it is nobody's to drop.
    foreign_publication boolean not null,
    -- The server whose log it is.
    system text not null,
    timeline int4 not null,
    epoch bigint not null default 0,
    -- The commit of the last transaction that was appended: one that comes again is passed over.
    committed pg_lsn not null,
    -- Everything that committed before this place is appended, or concerns no journal. The slot is never told of a later place.
    passed pg_lsn not null,
    -- Why nobody may go on.
    fault text
);

-- Whose turn it is to relay. Apart from the row that appends lock: a relay must be heard of while it appends for long.
create table seriatim.relay_lease (
    one boolean primary key default true check (one),
    epoch bigint not null,
    holder text not null,
    -- The session that appends.
    pid int4 not null,
    beat bigint not null default 0
);
