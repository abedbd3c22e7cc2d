package monitoring

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// alerts returns the alert rules, checked as "promtool check rules" does.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(
		alertsFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler),
	)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// row matches a metric in the reference, which is generated from the code.
var row = regexp.MustCompile("^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| (.*?) \\|")

// known returns the series of all metrics with their labels.
func known(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	series := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		names := strings.FieldsFunc(m[3], func(r rune) bool { return r == '`' || r == ',' || r == ' ' || r == '–' })
		if m[2] != "histogram" {
			series[m[1]] = names
			continue
		}
		series[m[1]+"_count"], series[m[1]+"_sum"] = names, names
		series[m[1]+"_bucket"] = append(slices.Clone(names), "le")
	}
	if len(series) < 10 {
		t.Fatalf("the reference has only %d series", len(series))
	}
	return series
}

// check reports which metrics and labels of an expression do not exist.
func check(t *testing.T, where, expression string, series map[string][]string) {
	t.Helper()
	// Values that Grafana fills in.
	expression = strings.NewReplacer("$__rate_interval", "5m", "$namespace", "default").Replace(expression)
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expression, err)
		return
	}
	var grouped []string
	var selected []string
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouped = append(grouped, n.Grouping...)
		case *parser.VectorSelector:
			has, ok := series[n.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, n.Name)
			}
			selected = append(selected, has...)
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !slices.Contains(has, m.Name) {
					t.Errorf("%s: %s has no label %s", where, n.Name, m.Name)
				}
			}
		}
		return nil
	})
	for _, label := range grouped {
		if !slices.Contains(selected, label) {
			t.Errorf("%s: no metric of %s has the label %s", where, expression, label)
		}
	}
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	series := known(t)
	for _, rule := range alerts(t) {
		check(t, rule.Alert, rule.Expr, series)
	}
}

func TestTheDashboardUsesMetricsThatExist(t *testing.T) {
	data, err := os.ReadFile("../../config/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	series, ids := known(t), map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the id %d", panel.ID)
		}
		ids[panel.ID] = true
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			check(t, panel.Title, target.Expr, series)
		}
	}
	if len(ids) < 10 {
		t.Errorf("the dashboard has only %d panels", len(ids))
	}
}

// Each metric of the provider is used by an alert or a panel.
func TestEachMetricOfTheProviderIsShown(t *testing.T) {
	var used strings.Builder
	for _, file := range []string{alertsFile, "../../config/monitoring/dashboard.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		used.Write(data)
	}
	for name := range known(t) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(base, "capstan_") && !strings.Contains(used.String(), base) {
			t.Errorf("neither an alert nor a panel uses %s", base)
		}
	}
}
