    -- A key that is checked late can be there twice for a while. A row that came and went while another one had its key was never
    -- there for anybody else: it is taken out.
    if cardinality(transient) > 0 then
        execute format('select exists (select from %s x where {same})', {oid}::regclass{names}) into alive using wanted;
        if alive then
            delete from seriatim.journal_N j where j.xid = pg_current_xact_id() and j.hash = lane and j.id = any (transient);
            perform seriatim.journal_N_order(lane, wanted, null, null);
            return;
        end if;
    end if;
