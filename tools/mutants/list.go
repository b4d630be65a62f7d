package main

// The promises, in the order of the list.
const (
	inOrder   = "Per cursor events come in order, each once, to one reader"
	fenced    = "Nothing of an owner that was fenced is recorded"
	bounded   = "A call that could be resumed ends with a result or an error in bounded time"
	drains    = "Planned ends lose nothing that ends in time, and refuse nothing"
	oneDies   = "The owner or the engine may die, and no event is lost"
	outages   = "An outage of the engine kills no call, and takes no session from an owner that lives"
	never404  = "A session that may live is never answered 404"
	lease     = "The lease of an owner ends for itself before it ends for others"
	noSecond  = "An adoption appends nothing: no number means two events"
	principal = "A session is only its principal's"
	sentOnce  = "A request is forwarded once at most, and never sent twice if it may have arrived"
	saved     = "The state is saved before the response leaves"
	known     = "The engine knows a stream before an id of it leaves"
	tasks     = "How a task has ended does not change once its client has seen it, and any process knows"
)

var mutants = []mutant{
	{
		promise: inOrder, what: "a cursor is served from itself on, not from after it",
		file: "core/get.go", old: `s.connSince, s.connLimit, s.connFrom, s.connWritten, s.resumed = m.now, in.Dur, seq, seq,`,
		new: `seq = max(seq, 1) - 1
	s.connSince, s.connLimit, s.connFrom, s.connWritten, s.resumed = m.now, in.Dur, seq, seq,`,
		pkg: "./tests/cluster", run: "TestAFinishedResultIsFetchedFromTheAdopter",
	},
	{
		promise: inOrder, what: "of the messages that wait the last one is taken first",
		file: "internal/engine/send.go", old: `	*m = w.queue[0]
`, new: `	w.queue[0], w.queue[len(w.queue)-1] = w.queue[len(w.queue)-1], w.queue[0]
	*m = w.queue[0]
`,
		pkg: "./tests/cluster", run: "TestTheOrderOf100Senders|TestABurstThroughASlowEngine",
	},
	{
		promise: inOrder, what: "the reader that was there before stays",
		file: "core/get.go", old: `		if old != 0 {
			out = append(out, Out{Do: End, Conn: old, Index: i, Stream: s.id, Dur: m.closeRetry(s, 0), Reason: TakenOver})`,
		new: `		if old == 1<<31 {
			out = append(out, Out{Do: End, Conn: old, Index: i, Stream: s.id, Dur: m.closeRetry(s, 0), Reason: TakenOver})`,
		pkg: "./core", run: "TestModel",
	},
	{
		promise: fenced, what: "the fence of a log compares only the epoch",
		file: "cluster/memory_log.go", old: `	case s.record.Fence != f:
		return eventstore.ErrFenced`, new: `	case s.record.Fence.Epoch != f.Epoch:
		return eventstore.ErrFenced`,
		pkg: "./cluster", run: "TestMemoryPassesTheExam",
	},
	{
		promise: fenced, what: "the fence of a record compares only the epoch",
		file: "cluster/memory_session.go", old: `	case s.record.Fence != f:`, new: `	case s.record.Fence.Epoch != f.Epoch:`,
		pkg: "./cluster", run: "TestMemoryPassesTheExam",
	},
	{
		promise: fenced, what: "an older epoch is let in",
		file: "cluster/memory_log.go", old: `	case s.record.Fence != f:
		return eventstore.ErrFenced`, new: `	case s.record.Fence.Epoch < f.Epoch:
		return eventstore.ErrFenced`,
		pkg: "./cluster", run: "TestMemoryPassesTheExam",
	},
	{
		promise: fenced, what: "the owner goes on though it was fenced",
		file: "internal/engine/send.go", old: `	if errors.Is(err, eventstore.ErrFenced) && s.regain() {`, new: `	if errors.Is(err, eventstore.ErrFenced) {
		err = nil
	}
	if errors.Is(err, eventstore.ErrFenced) && s.regain() {`,
		pkg: "./tests/cluster", run: "TestAnOwnerThatWasAliveAfterAll",
	},
	{
		promise: fenced, what: "an owner that comes back does not ask which sessions it owns",
		file: "post.go", old: ` || s.record.Owned() != nil): // another`, new: `): // another`,
		pkg: "./tests/cluster", run: "TestAnOwnerThatComesBackAsksWhichSessionsItOwns",
	},
	{
		promise: fenced, what: "a request that waited for that is served by a session that has moved",
		file: "post.go", old: `	case srv.node != nil && s.engine.Moved(): // while`, new: `	case srv.node == nil && s.engine.Moved(): // while`,
		pkg: "./tests/cluster", run: "TestRequestsThatWaitForAnOwnerThatHasMoved",
	},
	{
		promise: bounded, what: "owner_lost is not written at the adopter",
		file: "core/get.go", old: `			to.ID, to.Reason = r.ID, why
			if r.state == orphaned {
				to.Reason = OwnerLost
			}
			out = append(out, to)`, new: `			to.ID, to.Reason = r.ID, why`,
		pkg: "./tests/cluster", run: "TestARunningCallIsLostWithItsOwner",
	},
	{
		promise: bounded, what: "owner_lost is not written by the process that forwards",
		file: "forward.go", old: `	default:
		_ = p.out.SendLast(errorEvents(p.left.ids, failure(why)))`, new: `	default:
		_ = why
		p.out.Limit()`,
		pkg: "./tests/cluster", run: "TestAnOwnerIsLostInTheMiddle",
	},
	{
		promise: bounded, what: "an owner that hangs is waited for",
		file: "internal/hop/peer.go", old: `				a.cancel(ErrSilent)`, new: `				_ = ErrSilent`,
		pkg: "./tests/cluster", run: "TestAnOwnerIsLostInTheMiddle",
	},
	{
		promise: drains, what: "a session is released though events of it are on their way to the engine",
		file: "internal/engine/handover.go", old: ` && len(s.asks) == 0 && s.isStored() {`, new: ` && len(s.asks) == 0 {`,
		pkg: "./tests/cluster", run: "TestADrainWaitsForMessagesThatTheEngineHasNot",
	},
	{
		promise: drains, what: "a session is released that has events only in memory",
		file: "internal/engine/handover.go", old: `st.appending || st.isLocal() || st.pending`, new: `st.appending || st.pending`,
		pkg: "./tests/cluster", run: "TestADrainWaitsForMessagesThatTheEngineHasNot",
	},
	{
		promise: drains, what: "a process that is alone does not wait for the engine",
		file: "drain.go", old: `left == (DrainError{}) && !waits {`, new: `left == (DrainError{}) {`,
		pkg: "./tests/cluster", run: "TestADrainWaitsForMessagesThatTheEngineHasNot",
	},
	{
		promise: drains, what: "a session is released whose calls run",
		file: "internal/engine/handover.go", old: `s.m.AtRest() && `, new: ``,
		pkg: "./tests/cluster", run: "TestASessionWithARunningCallStaysDuringADrain",
	},
	{
		promise: drains, what: "initialize is refused",
		file: "post.go", old: `		if srv.node != nil && srv.node.handOn(r, in) {`, new: `		if srv.node == nil && srv.node.handOn(r, in) {`,
		pkg: "./tests/cluster", run: "TestInitializeDuringADrain",
	},
	{
		promise: drains, what: "sessions that were released are refused",
		file: "locate.go", old: `found.place = n.heir(ctx, nil, about.Principal, about.Polls); found`, new: `found.place = nil; found`,
		pkg: "./tests/cluster", run: "TestADrainReleasesIdleSessions",
	},
	{
		promise: drains, what: "a process that was overtaken at an adoption refuses",
		file: "locate.go", old: `again = found.refusal == &refuseOvertaken; again {`, new: `found == nil {`,
		pkg: "./tests/cluster", run: "TestTwoProcessesAdoptAtOnce",
	},
	{
		promise: drains, what: "a drain that begins during an adoption refuses",
		file: "adopt.go", old: `		if draining {
			return nil, &refuseOvertaken`, new: `		if draining {
			return nil, &refuseAway`,
		pkg: "./tests/cluster", run: "TestADrainDuringAnAdoption",
	},
	{
		promise: drains, what: "clients that the process forwards for are not let go",
		file: "drain.go", old: `		srv.node.forwarder.LetGo()`, new: ``,
		pkg: "./tests/cluster", run: "TestADrainOfAProcessThatForwards",
	},
	{
		promise: drains, what: "a drain does not look whether the engine has gone back",
		file: "internal/member/record.go", old: `	if r.doubted.Load() || refill == nil {`, new: `	if r != nil {`,
		pkg: "./tests/cluster", run: "TestAnEngineLosesTheLogsBeforeARelease",
	},
	{
		promise: drains, what: "the logs are not given to an engine that has lost the session",
		file: "internal/member/record.go", old: `	if err == nil && refill != nil {
		err = refill()`, new: `	if err == nil && refill == nil {
		err = refill()`,
		pkg: "./tests/cluster", run: "TestAnEngineForgetsBeforeARelease",
	},
	{
		promise: oneDies, what: "nothing is restored when the engine has lost data",
		file: "cluster.go", old: `	for _, p := range n.possessions() {
		p.record.MarkLost()
	}`, new: ``,
		pkg: "./tests/cluster", run: "TestAnIdleSessionOfAnEngineThatForgets",
	},
	{
		promise: oneDies, what: "the owner keeps no tail",
		file: "internal/engine/owner.go", old: `		l.keep(first, events, seal)`, new: ``,
		pkg: "./tests/cluster", run: "TestAnEngineThatForgetsLosesNothing",
	},
	{
		promise: oneDies, what: "a process does not notice that the engine went back",
		file: "internal/member/member.go", old: `	back := view.Was != m.count.Load()`, new: `	back := false`,
		pkg: "./tests/cluster", run: "TestAnIdleSessionOfAnEngineThatForgets",
	},
	{
		promise: oneDies, what: "an adoption that the engine has lost is not made again",
		file: "internal/member/record.go", old: `	return r.adoptAgain()
}`, new: `	return errNotAdopted
}`,
		pkg: "./tests/cluster", run: "TestAnEngineThatGoesBackBehindAnAdoption",
	},
	{
		promise: outages, what: "events do not wait for the engine",
		file: "internal/engine/outage.go", old: `	if err == nil || isLoss(err) || errors`, new: `	if true || err == nil || isLoss(err) || errors`,
		pkg: "./tests/cluster", run: "TestEventsWaitForAnEngineThatIsAway",
	},
	{
		promise: outages, what: "an owner whose entry the engine does not have is dead at once",
		file: "internal/member/watch.go", old: `		w.missing[owner.Incarnation] = now
		return Alive`, new: `		return Dead`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: outages, what: "contact regained gives no new lease to everybody",
		file: "internal/member/watch.go", old: `	regained := back || asked.Sub(w.asked) > w.lease*2/3`, new: `	regained := back`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: outages, what: "an engine that went back gives no new lease to everybody",
		file: "internal/member/watch.go", old: `	regained := back || asked.Sub`, new: `	regained := asked.Sub`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: outages, what: "an owner is dead by the clock, without a view that shows it",
		file: "internal/member/watch.go", old: `	case w.asked.Sub(since) > w.lease:
		return Dead`, new: `	case now.Sub(since) > w.lease:
		return Dead`,
		pkg: "./tests/cluster", run: "TestRequestsAreForwardedWhileTheEngineIsAway",
	},
	{
		promise: outages, what: "a process does not look once more before it adopts",
		file: "internal/member/member.go", old: ` != Alive && m.renew(ctx, asked) == nil && `, new: ` != Alive && asked >= 0 && `,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: never404, what: "a record that the engine has lost was never there",
		file: "internal/member/member.go", old: `			return nil, ErrWentBack
		case quiet`, new: `			return nil, err
		case quiet`,
		pkg: "./tests/cluster", run: "TestAnUnknownSessionWhileTheEngineMayHaveLostIt",
	},
	{
		promise: never404, what: "what is not found while the process renews was never there",
		file: "internal/member/member.go", old: `		case quiet && m.busy.Load() == ended:`, new: `		case quiet || !quiet:`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: never404, what: "an engine that has just lost data has lost no records",
		file: "internal/member/member.go", old: ` || found.Age <= restoredAfter*m.cfg.Lease || m.isUnsure():`, new: `:`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: never404, what: "a GET that cannot be served now gets an error",
		file: "server.go", old: `		srv.holdStream(w, r, in.cursor)`, new: `		srv.refuse(w, &refuseAway, in.id)`,
		pkg: "./tests/cluster", run: "TestRequestsDuringAnAdoptionThatFails",
	},
	{
		promise: lease, what: "a lease counts from its answer on",
		file: "internal/member/member.go", old: `int64(began.Add(m.cfg.Lease).Sub(m.base))`, new: `int64(now.Add(m.cfg.Lease).Sub(m.base))`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: lease, what: "a lease lasts for ever",
		file: "internal/member/member.go", old: `return int64(time.Since(m.base)) < m.held.Load() }`, new: `return m.held.Load() > 0 }`,
		pkg: "./internal/member", run: "Test.*",
	},
	{
		promise: lease, what: "no term follows a lease that had run out",
		file: "internal/member/member.go", old: `		m.lapsed.Store(true)
		m.term.Add(1)`, new: `		m.lapsed.Store(true)`,
		pkg: "./tests/cluster", run: "TestAnOwnerThatComesBackAsksWhichSessionsItOwns",
	},
	{
		promise: noSecond, what: "the standalone stream keeps its name",
		file: "internal/engine/adopted.go", old: `			machine.Older = append(machine.Older, core.OlderStream{ID: id, Last: at.Last})`,
		new: `			machine.Standalone = id`,
		pkg: "./tests/cluster", run: "TestTheStandaloneStreamGoesOnAtTheAdopter",
	},
	{
		promise: noSecond, what: "owner_lost takes the next number",
		file: "core/get.go", old: `		if anyOrphaned(rs) || restored && in.Reason == StoreFailed {`, new: `		if anyOrphaned(nil) {`,
		pkg: "./core", run: "TestScripts|TestModel",
	},
	{
		promise: noSecond, what: "the numbers of a stream begin anew",
		file: "internal/engine/adopted.go", old: `Last: at.Last, Sealed: at.Sealed, Retain`, new: `Sealed: at.Sealed, Retain`,
		pkg: "./tests/cluster", run: "TestAFinishedResultIsFetchedFromTheAdopter",
	},
	{
		promise: principal, what: "the hash in the record is not compared",
		file: "locate.go", old: `	if known && !isHashOf(about.Principal, id, found.by) {`, new: `	if known && n == nil {`,
		pkg: "./tests/cluster", run: "TestAnotherPrincipalAdoptsNothing",
	},
	{
		promise: principal, what: "that of a session elsewhere is not compared again",
		file: "locate.go", old: `at.Principal != "" && !n.isPrincipalOf(at, r, id)`, new: `at.Principal != "" && n == nil`,
		pkg: "./tests/cluster", run: "TestAnotherPrincipalOfALivingOwnersSession",
	},
	{
		promise: principal, what: "a request that waited for the search of another one is not compared",
		file: "locate.go", old: `found.principal != "" && !isHashOf(found.principal, id, principal)`, new: `found.principal != "" && n == nil`,
		pkg: "./tests/cluster", run: "TestAnotherPrincipalWaitsForASearch",
	},
	{
		promise: sentOnce, what: "an owner that is silent has not got the request",
		file: "internal/hop/send.go", old: `errors.Is(cause, ErrSilent) && a.way.unreached(nil):`, new: `errors.Is(cause, ErrSilent):`,
		pkg: "./tests/cluster", run: "TestAnOwnerIsLostInTheMiddle|TestAnOwnerThatHangsWhenItIsReachedAtLast",
	},
	{
		promise: sentOnce, what: "a connection that broke has not carried the request",
		file: "internal/hop/send.go", old: `{ w.connected.Store(true) }`, new: `{ w.connected.Store(false) }`,
		pkg: "./internal/hop", run: "TestWhatMayHaveArrivedIsSentOnce",
	},
	{
		promise: sentOnce, what: "net/http may send it again if the client says so",
		file: "internal/hop/request.go", old: `{"Idempotency-Key", "X-Idempotency-Key"}`, new: `{"X-Idempotency-Key"}`,
		pkg: "./internal/hop", run: "TestWhatMayHaveArrivedIsSentOnce",
	},
	{
		promise: sentOnce, what: "what could not be sent counts as sent",
		file: "internal/hop/send.go", old: `		w.connected.Store(false)
	}`, new: `	}`,
		pkg: "./internal/hop", run: "TestAnIdleConnectionOfAProcessThatHasEnded",
	},
	{
		promise: sentOnce, what: "a request that was forwarded is forwarded again",
		file: "locate.go", old: `	case in.forwarded:
		return &refuseMisdirected`, new: `	case in == nil:
		return &refuseMisdirected`,
		pkg: "./tests/torture", run: "TestCrossingsOfACluster",
	},
	{
		promise: saved, what: "it is not waited for",
		file: "adopt.go", old: `	if err := s.record.Save(since); err != nil {`, new: `	go func() { _ = s.record.Save(since) }()
	if err := error(nil); err != nil {`,
		pkg: "./tests/cluster", run: "TestAResponseWaitsForTheState",
	},
	{
		promise: saved, what: "a call succeeds whose state could not be saved",
		file: "adopt.go", old: `	if err := s.record.Save(since); err != nil {`, new: `	if err := s.record.Save(since); err != nil && s == nil {`,
		pkg: "./tests/cluster", run: "TestAStateThatCannotBeSaved",
	},
	{
		promise: known, what: "the head does not wait",
		file: "internal/engine/begin.go", old: `	if c.s.owner == nil || st == nil || st.begun`, new: `	if true || c.s.owner == nil || st == nil || st.begun`,
		pkg: "./tests/cluster", run: "TestAStreamIsKnownBeforeItsPrimer",
	},
	{
		promise: known, what: "the client gets the session id before the record is written",
		file: "internal/member/record.go", old: `	err := r.put()
	if err == nil {
		r.recorded.Store(true)
	}
	return err
}`, new: `	r.recorded.Store(true)
	go func() { _ = r.put() }()
	return nil
}`,
		pkg: "./tests/cluster", run: "TestInitializeWaitsForTheRecord",
	},
	{
		promise: tasks, what: "an end is shown before the store has it",
		file: "internal/engine/taskowner.go", old: `	if t.owned == nil || t.owned.settled == nil || t.dropped {
		return false`, new: `	if t != nil {
		return false`,
		pkg: "./tests/cluster", run: "TestATaskDuringAnOutage|TestEndsOfATaskCross",
	},
	{
		promise: tasks, what: "what has ended is lost with its owner",
		file: "internal/engine/taskadopt.go", old: `s.Name != taskStream || !s.Sealed {`, new: `s.Name != taskStream || s.Sealed {`,
		pkg: "./tests/cluster", run: "TestATaskIsAdopted",
	},
	{
		promise: tasks, what: "tasks are not looked for in other processes",
		file: "taskcluster.go", old: `		return n.locate(r, in, id, &theTask)`, new: `		return &refuseUnknownTask`,
		pkg: "./tests/cluster", run: "TestATaskIsFoundByAnyProcess",
	},
	{
		promise: drains, what: "tasks that have ended are not released",
		file: "internal/engine/taskowner.go", old: `	if t.owned.stored && !t.dropped {`, new: `	if !t.owned.stored && !t.dropped {`,
		pkg: "./tests/cluster", run: "TestADrainReleasesTasks",
	},
}
