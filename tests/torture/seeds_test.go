package torture_test

import "testing"

// kept are seeds of histories that have failed, and what they showed.
var kept = []uint64{
	10,  // an owner that had stalled gave notifications to a session that another process had adopted
	52,  // a call was taken for lost whose idle connection to a process that had ended was not written to
	189, // a process that was overtaken at the adoption of a released session answered 503
	226, // a drain that began during an adoption answered 503
	466, // a drain released a session whose logs the engine had lost just before
}

// TestTortureSeedsThatHaveFailed tells them first. The histories of a seed change with what may happen in them, so each has a test of its own, too.
func TestTortureSeedsThatHaveFailed(t *testing.T) {
	oneAtATime(t)
	for _, seed := range kept {
		tellSeed(t, seed, &tally{})
	}
}
