package window

import (
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

func TestMaintenanceWindow(t *testing.T) {
	noon := parttest.Noon()
	for name, c := range map[string]struct {
		setting, annotation string
		at                  time.Time
		retry               int32
		want                string // in the message, or in the error
		fails               bool
	}{
		"no windows": {"", "", noon, 0, "", false},
		"open": {"Sat 11:00 2h UTC", "", noon, 0,
			"the maintenance window is open until Sat 2026-11-21 13:00 +00:00 (UTC)", false},
		"a window opens soon, and the next call is at that time": {"Sat 12:01 2h UTC", "", noon, 60,
			"the upgrade to v1.36.3 waits: outside the maintenance windows, the next one opens Sat 2026-11-21 12:01 +00:00 " +
				"(UTC)", false},
		"a second before a window opens": {"Sat 12:01 2h UTC", "", noon.Add(time.Minute - time.Second), 1,
			"opens Sat 2026-11-21 12:01", false},
		"a millisecond before a window opens": {"Sat 12:01 2h UTC", "", noon.Add(time.Minute - time.Millisecond), 1,
			"opens Sat 2026-11-21 12:01", false},
		"a window opens days later": {"Fri 12:00 2h UTC", "", noon, 600, "opens Fri 2026-11-27 12:00", false},
		"the Cluster's own windows come first": {"Sat 11:00 2h UTC", "Sun 02:00 1h Europe/Berlin", noon, 600,
			"opens Sun 2026-11-22 02:00 +01:00 (Europe/Berlin)", false},
		"the Cluster's own window is open": {"Fri 11:00 2h UTC", "Sat 11:00 2h UTC", noon, 0, "open until", false},
		"an invalid setting": {"Sam 11:00 2h UTC", "", noon, 0,
			`setting "maintenance-window.windows" must be windows, separated by ";"`, true},
		"an invalid annotation": {"", "Sat 11:00", noon, 0,
			"annotation extensions.capstan.dev/maintenance-windows of the Cluster must be windows", true},
		"an annotation without a window": {"", " ; ", noon, 0,
			"disable windows with label extensions.capstan.dev/maintenance-window", true},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{}
			if c.setting != "" {
				settings["maintenance-window.windows"] = c.setting
			}
			e := parttest.Serve(t, settings, New(func() time.Time { return c.at }))
			cluster := sample.Cluster()
			if c.annotation != "" {
				cluster.Annotations = map[string]string{Annotation: c.annotation}
			}
			response, err := hooktest.CallOne(t, e, hook.BeforeClusterUpgrade, "window-upgrade",
				&runtimehooksv1.BeforeClusterUpgradeRequest{
					Cluster: *cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
				})
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error is %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || response.RetryAfterSeconds != c.retry || !strings.Contains(response.Message, c.want) ||
				(c.want == "" && response.Message != "") {
				t.Errorf("got %+v, %v", response, err)
			}
		})
	}
}

// All three hooks before upgrade steps make the Cluster wait, and each message says which step waits.
func TestMaintenanceWindowHoldsEachStep(t *testing.T) {
	e := parttest.Serve(t, map[string]string{"maintenance-window.windows": "Sun 12:00 1h UTC"}, New(parttest.Noon))
	cluster := *sample.Cluster()
	controlPlane, err := hooktest.CallOne(t, e, hook.BeforeControlPlaneUpgrade, "window-control-plane",
		&runtimehooksv1.BeforeControlPlaneUpgradeRequest{
			Cluster: cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
		})
	if err != nil || controlPlane.RetryAfterSeconds != 600 ||
		!strings.HasPrefix(controlPlane.Message, "the upgrade of the control plane to v1.36.3 waits: ") {
		t.Errorf("got %+v, %v", controlPlane, err)
	}
	workers, err := hooktest.CallOne(t, e, hook.BeforeWorkersUpgrade, "window-workers",
		&runtimehooksv1.BeforeWorkersUpgradeRequest{
			Cluster: cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
		})
	if err != nil || workers.RetryAfterSeconds != 600 ||
		!strings.HasPrefix(workers.Message, "the upgrade of workers to v1.36.3 waits: ") {
		t.Errorf("got %+v, %v", workers, err)
	}
}

// A step of another part waits like an upgrade, and passes where windows are switched off.
func TestHold(t *testing.T) {
	closed, open := "Sun 12:00 1h UTC", "Sat 11:00 2h UTC"
	for name, c := range map[string]struct {
		windows, enabled, label string
		reason, want            string
		fails                   bool
	}{
		"closed": {closed, "true", "", ReasonClosed,
			"the backup waits: outside the maintenance windows", false},
		"open":                           {open, "true", "", ReasonOpen, "the maintenance window is open until", false},
		"no windows":                     {"", "true", "", ReasonNoWindows, "", false},
		"a setting switches windows off": {closed, "false", "", "", "", false},
		"the label switches windows off": {closed, "true", "disabled", "", "", false},
		"the label switches windows on": {closed, "false", "enabled", ReasonClosed,
			"the backup waits: outside the maintenance windows", false},
		"an invalid label": {closed, "true", "no", "", "must be enabled or disabled", true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := sample.Cluster()
			if c.label != "" {
				cluster.Labels = map[string]string{part.Label(Name): c.label}
			}
			answer, err := Hold(cluster, setting.Values{windowsSetting: c.windows, Name + ".enabled": c.enabled}, "the backup",
				parttest.Noon())
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error is %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || answer.Reason != c.reason || !strings.HasPrefix(answer.Message, c.want) ||
				c.want == "" && answer.Message != "" ||
				(answer.RetryAfter > 0) != (c.reason == ReasonClosed) {
				t.Errorf("got %+v, %v", answer, err)
			}
		})
	}
}
