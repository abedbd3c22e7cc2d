package backup

import (
	"maps"
	"strings"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/window"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// Upgrades wait for a backup and deletions do not, unless labels or settings say otherwise. In these cases the cluster
// has nothing to back up, or the process has no place for backups.
func TestWhatWaitsForABackup(t *testing.T) {
	const nothing, noPlace = "no backup is taken: the cluster has no control plane yet",
		"there is no place to keep backups"
	for name, c := range map[string]struct {
		place    bool
		settings map[string]string
		label    string // enabled, disabled; empty: none
		upgrade  string // the message or the error; empty: it passes without a message
		deletion string
	}{
		"no label and no settings": {true, nil, "", nothing, ""},
		"the settings switch backups before upgrades off": {
			true, map[string]string{"backup-before-upgrade.enabled": "false"}, "", "", "",
		},
		"the settings switch backups before deletions on": {
			true, map[string]string{"backup-before-delete.enabled": "true"}, "",
			nothing, nothing,
		},
		"the label switches both on": {true, nil, "enabled", nothing, nothing},
		"the label switches both off": {true, map[string]string{"backup-before-delete.enabled": "true"},
			"disabled", "", ""},
		"no place, and no label": {false, nil, "", "no backup is taken: " + noPlace, ""},
		"no place, and a label that requires a backup": {false, nil, "enabled",
			"backup-before-upgrade asks for a backup, and " + noPlace, "backup-before-delete asks for a backup, and " + noPlace},
		"an invalid setting": {true, map[string]string{"backup.keep": "0"}, "",
			`setting "backup.keep" must be a number between 1 and 500`, `setting "backup.keep"`},
		"outside of the window": {true, map[string]string{"maintenance-window.windows": "Sun 12:00 1h UTC"}, "",
			"the backup before the upgrade to v1.36.3 waits: outside the maintenance windows", ""},
		"inside of the window": {true, map[string]string{"maintenance-window.windows": "Sat 11:00 2h UTC"}, "",
			nothing, ""},
		"windows that are switched off": {
			true, map[string]string{"maintenance-window.windows": "Sun 12:00 1h UTC", "maintenance-window.enabled": "false"}, "",
			nothing, "",
		},
		"an invalid value of on-failure": {true, map[string]string{"backup-before-upgrade.on-failure": "x"}, "",
			"must be hold or go-on", "must be hold or go-on"},
		"the label switches both off, a setting is invalid": {
			true, map[string]string{"backup.keep": "0"}, "disabled", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Reader: parttest.NewWorld(2), Tool: Tool{Path: "/bin/true"}, Now: parttest.Noon}
			if c.place {
				options.Directory = t.TempDir()
			}
			parts, err := New(options)
			if err != nil {
				t.Fatal(err)
			}
			e := parttest.Serve(t, c.settings, append(parts, window.New(parttest.Noon))...)
			cluster := *sample.Cluster()
			if c.label != "" {
				cluster.Labels = maps.Clone(cluster.Labels)
				if cluster.Labels == nil {
					cluster.Labels = map[string]string{}
				}
				cluster.Labels[part.Label(BeforeUpgrade)], cluster.Labels[part.Label(BeforeDelete)] = c.label, c.label
			}
			upgrade, err := hooktest.CallOne(t, e, hook.BeforeClusterUpgrade, "backup-upgrade",
				&runtimehooksv1.BeforeClusterUpgradeRequest{
					Cluster: cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
				})
			said(t, "the upgrade", upgrade, err, c.upgrade)
			deletion, err := hooktest.CallOne(t, e, hook.BeforeClusterDelete, "backup-delete",
				&runtimehooksv1.BeforeClusterDeleteRequest{Cluster: cluster})
			said(t, "the deletion", deletion, err, c.deletion)
		})
	}
}

func said(t *testing.T, what string, response runtimehooksv1.RetryResponseObject, err error, want string) {
	t.Helper()
	text, waits := "", false
	if err != nil {
		text = err.Error()
	} else {
		text, waits = response.GetMessage(), response.GetRetryAfterSeconds() > 0
	}
	if !strings.Contains(text, want) || want == "" && text != "" ||
		waits != (strings.Contains(want, "asks for a backup") || strings.Contains(want, " waits: ")) {
		t.Errorf("%s: %q, waits: %v; want %q", what, text, waits, want)
	}
}
