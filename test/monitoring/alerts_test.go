// Package monitoring tests the alert rules and the dashboard in config/monitoring with Prometheus' own library.
package monitoring

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const (
	alertsFile = "../../config/monitoring/alerts.yaml"
	// interval is how often rules are evaluated in these tests.
	interval = time.Minute
)

// evaluate runs all alert rules over the series until a time, and returns the summaries of the alerts that fire at that
// time, by name.
func evaluate(t *testing.T, series string, until time.Duration) map[string]string {
	t.Helper()
	storage := promqltest.LoadedStorage(t, series)
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), QueryFunc: rules.EngineQueryFunc(engine, storage), Queryable: storage, Appendable: storage,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
		NameValidationScheme: model.UTF8Validation,
		Parser:               parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, alertsFile)
	if len(errs) > 0 {
		t.Fatalf("the rules can't be read: %v", errs)
	}
	firing := map[string]string{}
	for _, group := range groups {
		for at := time.Duration(0); at <= until; at += interval {
			group.Eval(t.Context(), time.Unix(0, 0).Add(at))
		}
		for _, rule := range group.AlertingRules() {
			if err := rule.LastError(); err != nil {
				t.Errorf("%s: %v", rule.Name(), err)
			}
			for _, alert := range rule.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					firing[rule.Name()] = alert.Annotations.Get("summary")
				}
			}
		}
	}
	return firing
}

// healthy has the series of a manager without problems.
const healthy = `load 1m
  capstan_machine_host_wait_seconds_count 5x2000
  capstan_hosts{namespace="default",zone="a",phase="Available"} 1x2000
  capstan_host_agents{version="v1"} 3x2000
`

func TestAlertsFire(t *testing.T) {
	for name, c := range map[string]struct {
		series string
		// At the time quiet, no alert fires yet. At the time fires, exactly the alerts in want fire.
		quiet, fires time.Duration
		want         map[string]string
	}{
		"all is well": {series: healthy, fires: 25 * time.Hour},
		"hosts are offline for more than five minutes": {
			healthy + `  capstan_hosts{namespace="default",zone="a",phase="Offline"} 2x2000`,
			4 * time.Minute, 6 * time.Minute,
			map[string]string{"CapstanHostsOffline": `2 hosts of namespace default, zone "a", are offline`},
		},
		"a host comes back in time": {
			series: healthy + `  capstan_hosts{namespace="default",zone="a",phase="Offline"} 1 1 1 0x2000`,
			fires:  30 * time.Minute,
		},
		"a host is quarantined": {
			healthy + `  capstan_hosts{namespace="default",zone="a",phase="Quarantined"} 0 0 0 1x2000`,
			2 * time.Minute, 5 * time.Minute,
			map[string]string{"CapstanHostsQuarantined": `1 hosts of namespace default, zone "a", are quarantined`},
		},
		"no host of a zone is free": {
			healthy + `  capstan_hosts{namespace="default",zone="b",phase="InUse"} 4x2000
  capstan_hosts{namespace="default",zone="c",phase="InUse"} 4x2000
  capstan_hosts{namespace="default",zone="c",phase="Off"} 1x2000`,
			29 * time.Minute, 31 * time.Minute,
			map[string]string{"CapstanNoFreeHosts": `none of 4 hosts of namespace default, zone "b", is free`},
		},
		"agents have two versions for a day": {
			healthy + `  capstan_host_agents{version="v2"} 1x2000
  capstan_host_agents{version=""} 1x2000`, 23 * time.Hour, 24*time.Hour + time.Minute,
			map[string]string{"CapstanAgentVersionsDiffer": "hosts run 2 versions of the agent"},
		},
		"machines find no host": {
			healthy + `  capstan_machines_waiting{namespace="default",reason="NoHostMatches"} 3x2000
  capstan_machines_waiting{namespace="other",reason="WaitingForBootstrapData"} 3x2000`,
			9 * time.Minute, 11 * time.Minute,
			map[string]string{"CapstanMachinesWithoutHost": "3 machines of namespace default find no host"},
		},
		"bootstraps fail": {
			healthy + `  capstan_bootstrap_duration_seconds_count{result="failed"} 0 0 1 2 3 4x2000
  capstan_bootstrap_duration_seconds_count{result="succeeded"} 0+1x2000`,
			3 * time.Minute, 6 * time.Minute,
			map[string]string{"CapstanBootstrapsFail": "4 bootstraps failed within 30 minutes"},
		},
		"cleaning takes long": {
			healthy + `  capstan_host_cleaning_duration_seconds_bucket{result="succeeded",le="600"} 0x2000
  capstan_host_cleaning_duration_seconds_bucket{result="succeeded",le="3600"} 0+1x2000
  capstan_host_cleaning_duration_seconds_bucket{result="succeeded",le="+Inf"} 0+1x2000`,
			10 * time.Minute, 20 * time.Minute,
			map[string]string{"CapstanCleaningIsSlow": "one host in ten takes 55m 0s or more until it is clean"},
		},
		"no manager runs": {
			"load 1m\n  up 1x2000", 9 * time.Minute, 11 * time.Minute,
			map[string]string{"CapstanProviderAbsent": "Prometheus gets no metrics from a capstan-manager"},
		},
		"the circuit of an extension is open": {
			healthy + `  runtime_hook_circuit_state{extension="e",state="Open"} 1x2000
  runtime_hook_circuit_state{extension="f",state="Closed"} 1x2000`,
			4 * time.Minute, 6 * time.Minute,
			map[string]string{"CapstanExtensionLeftAlone": "extension e is not called, because its calls fail"},
		},
		"calls to an extension fail": {
			healthy + `  runtime_hook_call_errors_total{extension="e",hook="BeforeClusterUpgrade",handler="h"} 0+1x2000`,
			5 * time.Minute, 12 * time.Minute,
			map[string]string{"CapstanHookCallsFail": "calls of BeforeClusterUpgrade to extension e fail"},
		},
		"an add-on was changed": {
			healthy + `  capstan_extension_add_on_drift_total{what="changed"} 0 0 1x2000`, time.Minute, 5 * time.Minute,
			map[string]string{"CapstanAddOnsDrift": "objects of an add-on were changed in a workload cluster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if early := evaluate(t, c.series, c.quiet); len(early) > 0 {
				t.Errorf("after %s, alerts fire too early: %v", c.quiet, early)
			}
			got := evaluate(t, c.series, c.fires)
			for alert, summary := range c.want {
				if got[alert] != summary {
					t.Errorf("after %s, %s says %q, want %q", c.fires, alert, got[alert], summary)
				}
			}
			for alert, summary := range got {
				if _, wanted := c.want[alert]; !wanted {
					t.Errorf("after %s, %s fires: %s", c.fires, alert, summary)
				}
			}
		})
	}
}

// severities are the severities that alerts may have.
var severities = []string{"critical", "warning", "info"}

func TestAlertsSayWhatTheyAre(t *testing.T) {
	for _, rule := range alerts(t) {
		if !slices.Contains(severities, rule.Labels["severity"]) {
			t.Errorf("%s has the unknown severity %q", rule.Alert, rule.Labels["severity"])
		}
		for _, text := range []string{rule.Annotations["summary"], rule.Annotations["description"]} {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s lacks a summary or a description", rule.Alert)
			}
		}
	}
}
