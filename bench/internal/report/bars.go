package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"regexp"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// bars is a plot of horizontal bars: a group for each of Names, which has a bar of each series.
type bars struct {
	Title, Axis string
	Names       []string // from the top
	Series      []series
	Mark        float64 // the value of a vertical line; 0: none
}

// series are the bars of one colour.
type series struct {
	Name   string
	Values []float64 // one for each name
	Labels []string  // at the ends of the bars; if the value is 0, at the beginning
}

// The colours of the series differ in brightness too, for colour-blind readers and for paper. The background is opaque: the page may be dark.
var (
	colours = []color.Color{color.RGBA{R: 9, G: 105, B: 218, A: 255}, color.RGBA{R: 240, G: 168, B: 48, A: 255}}
	ink     = color.RGBA{R: 31, G: 35, B: 40, A: 255}
	grey    = color.RGBA{R: 140, G: 149, B: 159, A: 255}
	faint   = color.RGBA{R: 208, G: 215, B: 222, A: 255}
)

const (
	plotWidth = 600 * vg.Length(1)
	barHeight = 15 * vg.Length(1)
	group     = 8 * vg.Length(1) // between groups
)

// svg draws the plot.
func (b bars) svg() ([]byte, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	style(&p.Title.TextStyle, 14)
	p.Title.Text, p.Title.Padding = b.Title, 8
	style(&p.X.Label.TextStyle, 11)
	p.X.Label.Text, p.X.Label.Padding = b.Axis, 4
	style(&p.X.Tick.Label, 10)
	style(&p.Y.Tick.Label, 11)
	p.Y.Tick.Label.XAlign, p.Y.Tick.Label.YAlign = text.XRight, text.YCenter
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.X.LineStyle.Color, p.X.Tick.Color = faint, faint
	style(&p.Legend.TextStyle, 11)
	p.Legend.Padding, p.Legend.ThumbnailWidth = 3, 12

	grid := plotter.NewGrid()
	grid.Horizontal.Width, grid.Vertical.Color = 0, faint
	p.Add(grid)

	// Groups are at whole numbers, the first one at the top.
	n := len(b.Names)
	ticks := make([]plot.Tick, n)
	for i, name := range b.Names {
		ticks[i] = plot.Tick{Value: float64(n - 1 - i), Label: name}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	most := b.Mark
	var over []plot.Plotter // drawn after the mark
	for i, s := range b.Series {
		offset := barHeight * vg.Length(float64(len(b.Series)-1)/2-float64(i))
		values, labels := make(plotter.Values, n), plotter.XYLabels{}
		for k, v := range s.Values {
			values[n-1-k] = v
			labels.XYs = append(labels.XYs, plotter.XY{X: v, Y: float64(n - 1 - k)})
			labels.Labels = append(labels.Labels, s.Labels[k])
			most = max(most, v)
		}
		chart, err := plotter.NewBarChart(values, barHeight-2)
		if err != nil {
			return nil, err
		}
		chart.Horizontal, chart.Offset, chart.Color, chart.LineStyle.Width = true, offset, colours[i], 0
		ends, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		ends.Offset = vg.Point{X: 4, Y: offset}
		for k := range ends.TextStyle {
			style(&ends.TextStyle[k], 10)
			ends.TextStyle[k].YAlign = text.YCenter
		}
		p.Add(chart)
		over = append(over, ends)
		if len(b.Series) > 1 {
			p.Legend.Add(s.Name, chart)
		}
	}
	if b.Mark != 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: b.Mark, Y: -0.5}, {X: b.Mark, Y: float64(n) - 0.5}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Dashes = grey, []vg.Length{4, 3}
		p.Add(line)
	}
	p.Add(over...)
	p.X.Min, p.X.Max = 0, most*1.12
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	high := vg.Length(n)*(barHeight*vg.Length(len(b.Series))+group) + 80
	if len(b.Series) > 1 { // the legend needs room above the bars
		strip := 15 * vg.Length(len(b.Series))
		p.Legend.Top = true
		p.Y.Max += float64(strip / (barHeight*vg.Length(len(b.Series)) + group))
		high += strip
	}
	return write(p, high)
}

// write draws a plot as SVG.
func write(p *plot.Plot, high vg.Length) ([]byte, error) {
	c := vgsvg.New(plotWidth, high)
	canvas := draw.New(c)
	canvas.FillPolygon(color.White, []vg.Point{{}, {X: plotWidth}, {X: plotWidth, Y: high}, {Y: high}})
	p.Draw(draw.Crop(canvas, 10, -14, 8, -8))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	return letters.ReplaceAllFunc(out.Bytes(), func(element []byte) []byte {
		part := letters.FindSubmatch(element)
		size, err := strconv.ParseFloat(string(part[4]), 64)
		if err != nil {
			return element
		}
		var s text.Style
		style(&s, vg.Length(size))
		s.Handler = plot.DefaultTextHandler
		return fmt.Appendf(nil, `%s textLength="%.5g" lengthAdjust="spacingAndGlyphs"%s%s;%s%s`,
			part[1], s.Width(html.UnescapeString(string(part[6]))).Points(), part[2], fonts, part[3], part[5])
	}), nil
}

// letters matches a text of the drawing. The reader may not have the font that the text was measured with. So the text gets a list of fonts,
// and the width that it must have in each of them.
var letters = regexp.MustCompile(`(<text [^>]*?)(\s+style=")font-family:[^;]*;([^"]*font-size:([0-9.]+)px[^"]*"[^>]*)(>([^<]*)</text>)`)

const fonts = "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"

func style(s *text.Style, size vg.Length) {
	s.Font, s.Color = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), ink
}
