package show

import (
	"errors"
	"fmt"
)

// received is a message of the call's stream, as the client got it.
type received struct {
	id     string // the event's id
	step   int    // the number of a progress notification
	result bool   // it is the result, and step is 0
}

// check returns all faults in what a client received of a call, or nil: the progress of each step must come once, in order, then the
// result, and no id twice.
func check(got []received, steps int) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	ids, seen := map[string]bool{}, map[int]bool{}
	highest, results := 0, 0
	for _, r := range got {
		switch {
		case r.id == "":
			fault("a message came without an event id")
		case ids[r.id]:
			fault("event id %s came twice", r.id)
		}
		ids[r.id] = true
		switch {
		case r.result:
			results++
		case r.step < 1 || r.step > steps:
			fault("progress %d: there are only steps 1 to %d", r.step, steps)
		case seen[r.step]:
			fault("progress %d came twice", r.step)
		case r.step < highest:
			fault("progress %d came after progress %d", r.step, highest)
		}
		if results > 0 && !r.result {
			fault("something came after the result")
		}
		seen[r.step] = true
		highest = max(highest, r.step)
	}
	for step := 1; step <= steps; step++ {
		if !seen[step] {
			fault("progress %d never came", step)
		}
	}
	switch {
	case results == 0:
		fault("the result never came")
	case results > 1:
		fault("the result came %d times", results)
	}
	return errors.Join(faults...)
}
