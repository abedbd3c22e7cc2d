package extension

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// noon is a Saturday.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// start serves the extension over TLS, with these settings.
func start(t *testing.T, options Options, settings map[string]string) *hooktest.Extension {
	t.Helper()
	if options.Now == nil {
		options.Now = func() time.Time { return noon }
	}
	handler, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(handler.Close)
	return hooktest.StartHandler(t, handler, hooktest.Settings(settings))
}

// A part is on, off, or wrongly asked for, by settings and label. The settings hold a window that is closed, so what is on waits.
func TestSwitches(t *testing.T) {
	const closed = "Sun 12:00 1h UTC"
	for name, c := range map[string]struct {
		settings map[string]string
		label    string // empty: none
		want     string // waits, passes, or the error
	}{
		"on by default":                         {nil, "", "waits"},
		"off by the settings":                   {map[string]string{"maintenance-window.enabled": "false"}, "", "passes"},
		"on by the label, off by the settings":  {map[string]string{"maintenance-window.enabled": "false"}, "enabled", "waits"},
		"off by the label":                      {nil, "disabled", "passes"},
		"off by the label, the settings broken": {map[string]string{"maintenance-window.window": "x"}, "disabled", "passes"},
		"a label that says neither":             {nil, "yes", "label extensions.capstan.dev/maintenance-window of the Cluster must be enabled or disabled"},
		"a setting that nobody knows":           {map[string]string{"maintenance-window.window": "x"}, "", `setting "maintenance-window.window" is not known: known are `},
		"a setting that is wrong":               {map[string]string{"maintenance-window.enabled": "yes"}, "", `setting "maintenance-window.enabled" must be true or false`},
		"a wrong setting of another part":       {map[string]string{"capacity.enabled": ""}, "enabled", `setting "capacity.enabled" must be true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{"maintenance-window.windows": closed}
			maps.Copy(settings, c.settings)
			e := start(t, Options{Reader: newWorld(2)}, settings)
			request := &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: *sample.Cluster(), FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To}
			if c.label != "" {
				request.Cluster.Labels = map[string]string{"extensions.capstan.dev/maintenance-window": c.label}
			}
			response, err := hooktest.CallOne(t, e, hook.BeforeClusterUpgrade, "window-upgrade", request)
			got := "passes"
			switch {
			case err != nil:
				got = err.Error()
			case response.RetryAfterSeconds > 0:
				got = "waits"
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Every setting, label and annotation is documented, with what may be written.
func TestSettingsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/lifecycle-extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := Settings()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table.All() {
		given := "empty"
		if s.Default != "" {
			given = "`" + s.Default + "`"
		}
		allowed := s.Allowed
		if allowed == "" {
			allowed = "any text"
		}
		if row := "| `" + s.Name + "` | " + s.Does + " | " + allowed + " | " + given + " |"; !strings.Contains(string(data), row) {
			t.Errorf("docs/lifecycle-extensions.md has no row\n%s", row)
		}
	}
	for _, p := range parts() {
		if !strings.Contains(string(data), "`"+SwitchPrefix+p.name+"`") {
			t.Errorf("docs/lifecycle-extensions.md does not name the label of %s", p.name)
		}
	}
}
