package cluster

import (
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Process is one run of one process of a cluster. All three are any bytes.
type Process struct {
	Cluster     string // name of the cluster. Processes of different clusters do not see each other.
	Incarnation string // random, never used twice
	Self        string // where the others reach it. A later process of the cluster with the same Self supersedes it.
}

// Member is the entry of a process.
type Member struct {
	Process
	// Generation orders the processes that have joined with this Self: a later one has a higher generation. It is at least 1. The
	// process itself proposes it when it joins. rejoin makes it from its clock, so that generations rise also if the engine has lost
	// its entries.
	Generation uint64
	// Count grows with each renewal. It is 0 after Join.
	Count uint64
	// Left says that the process has left for good: its sessions may be adopted at once.
	Left bool
}

// Record is what the directory keeps of a session.
type Record struct {
	// Session is the key of the session, and the Session of its logs ([eventstore.Key]). It differs between clusters: the
	// process that makes it puts the cluster's name in.
	Session string
	// Fence is the owner's.
	Fence eventstore.Fence
	// Self is where the owner is reached.
	Self string
	// Generation is that of the owner among the processes with its Self. It says which of them came later. It is the same for one
	// fence, as Self is.
	Generation uint64
	// Released says that the owner has let go: anybody may adopt the session at once.
	Released bool
	// Format says how to read About. It is opaque for the directory.
	Format int
	// About describes the session to its next owner. It is opaque for the directory.
	About []byte
	// State is what the app saved, opaque. Nil: nothing was saved, which is not the same as an empty state.
	State []byte
	// Version orders the states of a session: a later one has a higher version.
	Version uint64
}

// Stream is a log of a session, as Adopt finds it.
type Stream struct {
	Name, About string // Stream and About of the [eventstore.Key] with which the log was begun
	Backlog     bool
	First, Last uint64 // as in [eventstore.State]
	Sealed      bool
}

// Found is the answer of Find.
type Found struct {
	// Record is nil if there is an error.
	Record *Record
	// Count is the count of the asking process as the directory has it; 0: the process has no entry, or was superseded. It is
	// valid with ErrUnknown and ErrEnded too.
	Count uint64
	// Age is for how long the directory has lost nothing, as far as it can tell, by the engine's clock: since it was set up, or since
	// the engine may last have lost data. 0: it cannot tell. It is valid with ErrUnknown and ErrEnded too.
	Age time.Duration
}

// View is the answer of Renew.
type View struct {
	// Was is the caller's count as it stood before this renewal; 0: the directory had no entry of it.
	Was uint64
	// Members are all of the cluster, the caller and those that have left among them, in any order. Superseded ones are not.
	Members []Member
}

// Held is a session that the caller owns.
type Held struct {
	Session string
	Fence   eventstore.Fence
}
