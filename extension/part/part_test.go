package part_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/capacity"
	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/window"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// Settings and label switch a part on or off, or are invalid. The settings have a window that is closed, so a part that
// is on makes the Cluster wait.
func TestSwitches(t *testing.T) {
	const closed = "Sun 12:00 1h UTC"
	for name, c := range map[string]struct {
		settings map[string]string
		label    string // empty: none
		want     string // waits, passes, or the error
	}{
		"a part is on by default":        {nil, "", "waits"},
		"the settings switch a part off": {map[string]string{"maintenance-window.enabled": "false"}, "", "passes"},
		"the label switches a part on, the settings switch it off": {
			map[string]string{"maintenance-window.enabled": "false"},
			"enabled", "waits",
		},
		"the label switches a part off": {nil, "disabled", "passes"},
		"the label switches a part off, the settings are invalid": {
			map[string]string{"maintenance-window.window": "x"}, "disabled", "passes",
		},
		"an invalid label": {nil, "yes",
			"label extensions.capstan.dev/maintenance-window of the Cluster must be enabled or disabled"},
		"an unknown setting": {map[string]string{"maintenance-window.window": "x"}, "",
			`setting "maintenance-window.window" is unknown: the settings are `},
		"an invalid setting": {map[string]string{"maintenance-window.enabled": "yes"}, "",
			`setting "maintenance-window.enabled" must be true or false`},
		"an invalid setting of another part": {map[string]string{"capacity.enabled": ""}, "enabled",
			`setting "capacity.enabled" must be true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{"maintenance-window.windows": closed}
			maps.Copy(settings, c.settings)
			e := parttest.Serve(t, settings, window.New(parttest.Noon), capacity.New(parttest.NewWorld(2)))
			request := &runtimehooksv1.BeforeClusterUpgradeRequest{
				Cluster: *sample.Cluster(), FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
			}
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

// A part's answer reaches the caller, whether it is a message, a wait or a failure. The log has the reason for each
// Cluster that is held.
func TestAnswers(t *testing.T) {
	full := finding.Finding{Reason: "Full", Message: "there is no room"}
	for name, c := range map[string]struct {
		answer part.Answer
		err    error
		retry  int32
		want   string
		log    string
	}{
		"an empty answer": {part.Answer{}, nil, 0, "", ""},
		"the Cluster goes on": {part.Pass(finding.Finding{Reason: "Empty", Message: "there is room"}), nil, 0,
			"there is room", ""},
		"the Cluster waits": {part.Hold(7*time.Second, full), nil, 7, "there is no room", "reason=Full"},
		"a wait of no time": {part.Hold(0, full), nil, 1, "there is no room", "reason=Full"},
		"a failure":         {part.Hold(7*time.Second, full), errors.New("no answer"), 0, "no answer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			closed := 0
			one := part.Part{Name: "one", Close: func() { closed++ },
				Handlers: []part.Handler{part.Handle(hook.BeforeClusterUpgrade, "one",
					func(ctx context.Context, settings setting.Values,
						_ *runtimehooksv1.BeforeClusterUpgradeRequest) (part.Answer, error) {
						if settings["one.enabled"] != "true" {
							t.Errorf("the settings are %v", settings)
						}
						if deadline, bounded := ctx.Deadline(); !bounded || time.Until(deadline) > 9*time.Second {
							t.Errorf("the part has until %s, bounded is %t: it must end before its caller gives up", deadline, bounded)
						}
						return c.answer, c.err
					})}}
			handlers, err := part.Handlers(slog.New(slog.NewTextHandler(&log, nil)), one)
			if err != nil {
				t.Fatal(err)
			}
			response, err := hooktest.CallOne(t, hooktest.Start(t, handlers...), hook.BeforeClusterUpgrade, "one",
				&runtimehooksv1.BeforeClusterUpgradeRequest{
					Cluster: *sample.Cluster(), FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
				})
			switch {
			case c.err != nil:
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error is %v, want %s", err, c.want)
				}
			case err != nil || response.RetryAfterSeconds != c.retry || response.Message != c.want:
				t.Errorf("got %+v, %v", response, err)
			}
			if !strings.Contains(log.String(), c.log) || c.log == "" && log.Len() > 0 {
				t.Errorf("the log has %q, want %q", log.String(), c.log)
			}
			if part.Close(one, part.Part{}); closed != 1 {
				t.Errorf("the part was closed %d times", closed)
			}
		})
	}
}

func TestAPartThatIsOff(t *testing.T) {
	handle := part.Handle(hook.BeforeClusterDelete, "one",
		func(context.Context, setting.Values, *runtimehooksv1.BeforeClusterDeleteRequest) (part.Answer, error) {
			return part.Pass(finding.Finding{Message: "called"}), nil
		})
	e := parttest.Serve(t, nil, part.Part{Name: "one", Off: true, Handlers: []part.Handler{handle}})
	for label, want := range map[string]string{"": "", part.Enabled: "called", part.Disabled: ""} {
		cluster := *sample.Cluster()
		if label != "" {
			cluster.Labels = map[string]string{part.Label("one"): label}
		}
		response, err := hooktest.CallOne(t, e, hook.BeforeClusterDelete, "one",
			&runtimehooksv1.BeforeClusterDeleteRequest{Cluster: cluster})
		if err != nil || response.Message != want {
			t.Errorf("label %q: %+v, %v, want %q", label, response, err, want)
		}
	}
}

func TestSettingsThatAreThereTwice(t *testing.T) {
	if _, err := part.Settings(part.Part{Name: "one"}, part.Part{Name: "one"}); err == nil ||
		!strings.Contains(err.Error(), `"one.enabled"`) {
		t.Errorf("error is %v", err)
	}
}
