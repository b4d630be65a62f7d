package report

import "github.com/rejoin-mcp/rejoin/bench/internal/results"

// figure is a plot of the document with its caption.
type figure struct {
	bars

	Name string // of its file, without .svg
	Text string // the caption
}

// comparedServer is a group of bars: a server's JSON and SSE subjects.
type comparedServer struct{ Name, JSON, SSE string }

var comparedServers = []comparedServer{
	{"rejoin, own handler", "rejoin-json", "rejoin-sse"},
	{"go-sdk behind rejoin", "rejoin-gosdk-json", "rejoin-gosdk-sse"},
	{"go-sdk, own handler", "gosdk-json", "gosdk-sse-store"},
	{"mcp-go behind rejoin", "rejoin-mcpgo-json", "rejoin-mcpgo-sse"},
	{"mcp-go, own handler", "mcpgo-json", "mcpgo-sse-store"},
}

// plots are the figures of the document. The README shows the first two.
func plots(run results.Run) ([]figure, error) {
	var all []figure
	for _, draw := range []func(results.Run) (figure, error){callsFigure, waitingFigure, burstFigure, replayFigure} {
		p, err := draw(run)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func callsFigure(run results.Run) (figure, error) {
	p := figure{Name: "calls", Text: "Calls a second of 16 clients, server on one core, compared with handlers written by hand (`bare-json`, `bare-sse`)." +
		" SSE has an event store on both sides."}
	p.Title, p.Axis, p.Mark = "tools/call: calls a second", "a handler written by hand = 1", 1
	json, sse := series{Name: "JSON"}, series{Name: "SSE, with an event store"}
	for _, r := range comparedServers {
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

func burstFigure(run results.Run) (figure, error) {
	return eventsFigure(run, "burst", cell{Scenario: "burst-8", Metric: "events/s"}, "Notifications a second, 8 calls at once",
		"Progress notifications a second, on 8 streams, compared with a handler written by hand that flushes each (`bare-sse-store`).")
}

func replayFigure(run results.Run) (figure, error) {
	return eventsFigure(run, "replay", cell{Scenario: "replay-100000", Metric: "all"}, "Events a second, replayed",
		"100,000 events read again with `Last-Event-ID`, compared with a handler written by hand (`bare-sse-store`).")
}

// eventsFigure compares events a second of the SSE subjects.
func eventsFigure(run results.Run, name string, of cell, title, text string) (figure, error) {
	p := figure{Name: name, Text: text}
	p.Title, p.Axis, p.Mark = title, "a handler written by hand = 1", 1
	sse := series{}
	for _, r := range comparedServers {
		p.Names = append(p.Names, r.Name)
		if err := sse.gain(run, of.Scenario, of.Metric, r.SSE, "bare-sse-store"); err != nil {
			return p, err
		}
	}
	p.Series = []series{sse}
	return p, nil
}

// waitingFigure has no bar where a server cannot disconnect its client.
func waitingFigure(run results.Run) (figure, error) {
	p := figure{Name: "waiting", Text: "Resident memory of a long call, without the memory of its session: while its client is connected, and while its client is disconnected to\n" +
		"poll later. mcp-go's own handler cannot disconnect a client."}
	p.Title, p.Axis = "Memory of a call that waits", "KB a call; less is better"
	hanging, parked := series{Name: "client connected"}, series{Name: "client disconnected"}
	for _, r := range comparedServers {
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

// gain adds the ratio of a subject to another one.
func (s *series) gain(run results.Run, scenario, metric, subject, base string) error {
	values, err := gains(run, cell{Scenario: scenario, Subject: subject, Metric: metric}, cell{Scenario: scenario, Subject: base, Metric: metric})
	if err != nil {
		return err
	}
	s.add(median(values), ratio(median(values)))
	return nil
}

// kilobytes adds a value in kilobytes.
func (s *series) kilobytes(run results.Run, c cell) error {
	values, err := rounds(run, c)
	if err != nil {
		return err
	}
	s.add(max(0, median(values)/1000), number(median(values)/1000))
	return nil
}
