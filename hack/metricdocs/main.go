// Command metricdocs writes the reference of all metrics, from the code that registers them.
//
//	go run ./hack/metricdocs docs/reference/metrics.md
package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	agentmetrics "github.com/capstan-dev/capstan/agent/metrics"
	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/provider/metrics"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/server"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metricdocs OUTPUT-FILE")
		os.Exit(2)
	}
	text, err := page()
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "metricdocs:", err)
		os.Exit(1)
	}
}

// source is a program's set of metrics.
type source struct {
	title, from string
	register    func(prometheus.Registerer) error
}

var sources = []source{
	{
		"Provider",
		"`capstan-manager` serves these metrics at the address in `--metrics-bind`. If several managers run, only the " +
			"leader has the gauges.",
		provider,
	},
	{"Calls of runtime extensions", "Programs that call extensions with `runtime/client` have these " +
		"metrics if they set `Options.Metrics`.", calls},
	{"Runtime extensions", "`capstan-extension` serves these metrics at the address in `--healthz`. Other " +
		"extensions made with `runtime/server` have the `runtime_extension` metrics if they set " +
		"`Options.Metrics`.", extensions},
}

func provider(registerer prometheus.Registerer) error {
	_, err := metrics.New(registerer, clock.RealClock{})
	return errors.Join(err, registerer.Register(metrics.NewInventory(nil, "", nil)))
}

func calls(registerer prometheus.Registerer) error {
	_, err := client.New(client.Options{Metrics: registerer})
	return err
}

func extensions(registerer prometheus.Registerer) error {
	_, serverErr := server.New(server.Options{Metrics: registerer})
	_, addOnErr := addon.New(addon.Options{Metrics: registerer, Now: time.Now})
	return errors.Join(serverErr, addOnErr)
}

// collectors collects everything that is registered with it.
type collectors struct{ all []prometheus.Collector }

func (c *collectors) Register(collector prometheus.Collector) error {
	c.all = append(c.all, collector)
	return nil
}

func (c *collectors) MustRegister(all ...prometheus.Collector)       { c.all = append(c.all, all...) }
func (c *collectors) Unregister(collector prometheus.Collector) bool { return false }

func page() (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\n`make generate` makes this page from the code that registers the metrics. Durations are " +
		"in seconds.\n")
	for _, s := range sources {
		registered := &collectors{}
		if err := s.register(registered); err != nil {
			return "", fmt.Errorf("registering the metrics of %q: %w", s.title, err)
		}
		rows, err := rowsOf(registered.all)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Metric | Type | Labels | What it is |\n|---|---|---|---|\n%s",
			s.title, s.from, strings.Join(rows, ""))
	}
	b.WriteString("\n## Agent\n\n`capstan-agent` serves these metrics at the address in `--metrics-bind-address`. " +
		"Without this flag, it serves no\nmetrics. All counts begin at the start of the agent.\n\n" +
		"| Metric | Type | Labels | What it is |\n|---|---|---|---|\n")
	for _, f := range agentmetrics.Families() {
		b.WriteString(line(f.Name, f.Kind, strings.Join(f.Labels, ","), f.Help))
	}
	return b.String(), nil
}

// described matches the text of a prometheus.Desc, which offers no other way to read it.
var described = regexp.MustCompile(
	`^Desc\{fqName: "(.+)", help: "(.*)", constLabels: \{\}, variableLabels: \{(.*)\}\}$`,
)

func rowsOf(all []prometheus.Collector) ([]string, error) {
	var rows []string
	for _, c := range all {
		descriptions := make(chan *prometheus.Desc, 64)
		c.Describe(descriptions)
		close(descriptions)
		for d := range descriptions {
			parts := described.FindStringSubmatch(d.String())
			if parts == nil {
				return nil, fmt.Errorf("a metric is described in a way that this program does not know: %s", d)
			}
			rows = append(rows, line(parts[1], kindOf(parts[1]), parts[3], parts[2]))
		}
	}
	slices.Sort(rows)
	return rows, nil
}

// line returns a metric's row of the page. labels are separated by commas.
func line(name, kind, labels, help string) string {
	if labels == "" {
		labels = "–"
	} else {
		labels = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, kind, labels, help)
}

// kindOf derives the type of a metric from its name, by Prometheus' conventions. Here every metric of a duration that
// is not a total is a histogram.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_seconds"):
		return "histogram"
	default:
		return "gauge"
	}
}
