package core

import "time"

// State is where a stream stands, in the words of logs and admin pages.
type State uint8

// The states.
const (
	Dropped State = iota // there is no such stream
	Pending              // a POST waits for its answer, whose form is not decided
	Live                 // somebody reads
	Parked               // it runs, and nobody reads
	Sealed               // it has ended
)

func (s State) String() string {
	return [...]string{"dropped", "pending", "live", "parked", "sealed"}[s]
}

// Info is a snapshot of a stream.
type Info struct {
	State State
	Since time.Time // the stream was made
	Seq   uint64    // its last event
}

// Standalone names the session's own stream, until the session's end.
func (m *Machine) Standalone() StreamID { return m.own }

// Inspect looks at the stream in one place, also after the end of the session, where there is none.
func (m *Machine) Inspect(index int32) Info {
	if m.work == nil && m.phase != over && index == standalone {
		return Info{State: Parked, Since: m.base}
	}
	if m.work == nil || int(index) >= len(m.streams) {
		return Info{}
	}
	s := &m.streams[index]
	info := Info{Since: m.base.Add(s.began), Seq: s.seq}
	switch {
	case s.life == unused:
		return Info{}
	case s.life == ended:
		info.State = Sealed
	case s.reader == undecided:
		info.State = Pending
	case s.reader == attached:
		info.State = Live
	default:
		info.State = Parked
	}
	return info
}
