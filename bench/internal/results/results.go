// Package results has the results of a run of the benchmarks.
package results

// Run is one run of the benchmarks.
type Run struct {
	Date      string            `json:"date"` // RFC 3339
	Machine   Machine           `json:"machine"`
	Versions  map[string]string `json:"versions"` // of Go and of the libraries
	Rounds    int               `json:"rounds"`
	Short     bool              `json:"short,omitempty"` // fewer rounds than the scenarios want
	Seconds   float64           `json:"seconds"`
	Scenarios []Scenario        `json:"scenarios"`
}

// Machine describes the machine of a run.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	System string `json:"system"` // name and release of the kernel
}

// Scenario is one table: metrics are its columns, subjects its rows.
type Scenario struct {
	ID      string   `json:"id"` // "calls-pinned", "replay-100000"
	Title   string   `json:"title"`
	Text    string   `json:"text"` // how it is measured, one paragraph of Markdown
	Metrics []Metric `json:"metrics"`
	Rows    []Row    `json:"rows"`
}

// Metric is one column.
type Metric struct {
	Key   string `json:"key"`   // "calls/s"
	Title string `json:"title"` // of the column, with the unit
	Less  bool   `json:"less"`  // less is better
	Plain bool   `json:"plain"` // has no ratios
}

// Row is one subject.
type Row struct {
	Subject string           `json:"subject"`
	Base    string           `json:"base"`
	Values  map[string]Value `json:"values"` // by the metric's key
}

// Value has the median over the rounds. Ratio is the median of the rounds' ratios to the base in the same round; above 1 is better, also
// for metrics of which less is better; 0: there is no ratio.
type Value struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds,omitempty"` // the value of each round
	Ratio  float64   `json:"ratio,omitempty"`
	Ratios []float64 `json:"ratios,omitempty"` // of each round
}
