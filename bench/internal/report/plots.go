package report

import "github.com/rejoin-mcp/rejoin/bench/internal/results"

// picture is a plot of the document.
type picture struct {
	bars

	Name string // of its file, without .svg
	Text string // below it
}

// rival is a line of a plot: a server's JSON and SSE subjects.
type rival struct{ Name, JSON, SSE string }

var rivals = []rival{
	{"rejoin, own handler", "rejoin-json", "rejoin-sse"},
	{"go-sdk behind rejoin", "rejoin-gosdk-json", "rejoin-gosdk-sse"},
	{"go-sdk, own handler", "gosdk-json", "gosdk-sse-store"},
	{"mcp-go behind rejoin", "rejoin-mcpgo-json", "rejoin-mcpgo-sse"},
	{"mcp-go, own handler", "mcpgo-json", "mcpgo-sse-store"},
}

// plots are the plots of the document. The first two are the README's.
func plots(run results.Run) ([]picture, error) {
	var all []picture
	for _, draw := range []func(results.Run) (picture, error){callsPicture, waitingPicture, burstPicture, replayPicture} {
		p, err := draw(run)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func callsPicture(run results.Run) (picture, error) {
	p := picture{Name: "calls", Text: "Calls a second, server pinned to one core, 16 clients, beside the handlers written by hand (`bare-json`, `bare-sse`). SSE is with an event store on " +
		"both sides."}
	p.Title, p.Axis, p.Mark = "tools/call: calls a second", "a handler written by hand = 1", 1
	json, sse := series{Name: "JSON"}, series{Name: "SSE, with an event store"}
	for _, r := range rivals {
		p.Names = append(p.Names, r.Name)
		if err := json.gain(run, callsPinned, "calls/s", r.JSON, "bare-json"); err != nil {
			return p, err
		}
		if err := sse.gain(run, callsPinned, "calls/s", r.SSE, "bare-sse"); err != nil {
			return p, err
		}
	}
	p.Series = []series{json, sse}
	return p, nil
}

func burstPicture(run results.Run) (picture, error) {
	return eventsPicture(run, "burst", cell{Scenario: "burst-8", Metric: "events/s"}, "Notifications a second, 8 calls at once",
		"Progress notifications a second, on 8 streams, beside a handler written by hand that flushes each (`bare-sse-store`).")
}

func replayPicture(run results.Run) (picture, error) {
	return eventsPicture(run, "replay", cell{Scenario: "replay-100000", Metric: "all"}, "Events a second, replayed",
		"100,000 events read again with `Last-Event-ID`, beside a handler written by hand (`bare-sse-store`).")
}

// eventsPicture is one of events a second, with SSE.
func eventsPicture(run results.Run, name string, of cell, title, text string) (picture, error) {
	p := picture{Name: name, Text: text}
	p.Title, p.Axis, p.Mark = title, "a handler written by hand = 1", 1
	sse := series{}
	for _, r := range rivals {
		p.Names = append(p.Names, r.Name)
		if err := sse.gain(run, of.Scenario, of.Metric, r.SSE, "bare-sse-store"); err != nil {
			return p, err
		}
	}
	p.Series = []series{sse}
	return p, nil
}

// waitingPicture has no bar where a server cannot let its client go.
func waitingPicture(run results.Run) (picture, error) {
	p := picture{Name: "waiting", Text: "Resident memory of a call that runs for long, over what its session costs: while its client hangs on the connection, and when the client was " +
		"let go to come back later. mcp-go's own handler cannot let a client go."}
	p.Title, p.Axis = "Memory of a call that waits", "KB a call; less is better"
	hanging, parked := series{Name: "the client hangs on"}, series{Name: "the client was let go"}
	for _, r := range rivals {
		p.Names = append(p.Names, r.Name)
		if err := hanging.kilobytes(run, cell{Scenario: hangingPost, Subject: r.SSE, Metric: "rss"}); err != nil {
			return p, err
		}
		if r.SSE == "mcpgo-sse-store" {
			parked.add(0, "not possible")
			continue
		}
		if err := parked.kilobytes(run, cell{Scenario: parkedCall, Subject: r.SSE, Metric: "rss"}); err != nil {
			return p, err
		}
	}
	p.Series = []series{hanging, parked}
	return p, nil
}

func (s *series) add(value float64, label string) {
	s.Values, s.Labels = append(s.Values, value), append(s.Labels, label)
}

// gain adds what a subject is beside another.
func (s *series) gain(run results.Run, scenario, metric, subject, base string) error {
	values, err := gains(run, cell{Scenario: scenario, Subject: subject, Metric: metric}, cell{Scenario: scenario, Subject: base, Metric: metric})
	if err != nil {
		return err
	}
	s.add(median(values), ratio(median(values)))
	return nil
}

// kilobytes adds what a subject needs.
func (s *series) kilobytes(run results.Run, c cell) error {
	values, err := rounds(run, c)
	if err != nil {
		return err
	}
	s.add(max(0, median(values)/1000), number(median(values)/1000))
	return nil
}
