package torture_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// deployments are the ways in which all processes of a fleet are replaced.
var deployments = map[string]func(f *fleet){
	"one after the other, the new one first": func(f *fleet) {
		for i, old := range f.pods {
			f.pods[i] = f.start(fmt.Sprint("q", i))
			kit.Elapse(time.Second)
			f.stop(old)
		}
	},
	"one after the other, the old one first": func(f *fleet) {
		for i, old := range f.pods {
			f.stop(old)
			f.pods[i] = f.start(old.host)
			kit.Elapse(time.Second)
		}
	},
	"all at once": func(f *fleet) {
		old := f.pods
		f.pods = nil
		for i := range old {
			f.pods = append(f.pods, f.start(fmt.Sprint("q", i)))
		}
		kit.Elapse(time.Second)
		var all sync.WaitGroup
		for _, p := range old {
			all.Go(func() { f.stop(p) })
		}
		all.Wait()
	},
}

const guests = 36

// All processes of a cluster are replaced while clients work: no call is lost that ends within the grace of its process, the others end with an error, no
// notification is lost, and no client is refused anything.
func TestARollingDeploy(t *testing.T) {
	oneAtATime(t)
	for name, deploy := range deployments {
		t.Run(name, func(t *testing.T) {
			first, n := uint64(*from), uint64(max(1, *seeds/50/kit.Fewer))
			for seed := first; seed < first+n && !t.Failed(); seed++ {
				kit.Bubble(t, func(t *testing.T) {
					resting := len(kit.Goroutines())
					f := newFleet(t, seed)
					f.replaced(deploy)
					if f.close(); !t.Failed() {
						kit.RequireRested(t, resting)
					}
				})
			}
		})
	}
}

// replaced replaces all processes while guests work.
func (f *fleet) replaced(deploy func(*fleet)) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range guests {
		c := &guest{f: f, ctx: ctx, name: fmt.Sprint(string(rune('a'+i%26)), i/26, "-")}
		c.habits = []habits{{}, {listens: true}, {legacy: true}, {legacy: true, listens: true}, {json: true}, {cuts: true, listens: true}}[i%6]
		c.random = f.rand(c.name)
		all.Go(c.live)
	}
	kit.Elapse(5 * time.Second)
	deploy(f)
	kit.Elapse(5 * time.Second)
	f.end()
	all.Wait()
	for status, n := range f.spray.statuses {
		if !slices.Contains([]int{http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusNotFound}, status) {
			f.fault("%d answers have the status %d", n, status)
		}
	}
	if !f.failed() {
		f.audit()
	}
	f.t.Logf("%d calls, %d ended by the end of a grace, answers %v", len(f.works.of), f.works.shutdowns, f.spray.statuses)
	f.check(f.t, "-from %d", f.seed)
}
