package server_test

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

type settings struct {
	Approvers []string      `setting:"approvers,required"`
	Patience  time.Duration `setting:"patience" default:"30s"`
	Strict    bool          `setting:"strict"`
	Most      int8          `setting:"most" default:"3"`
	Least     uint          `setting:"least"`
	Share     float64       `setting:"share"`
	Gateway   netip.Addr    `setting:"gateway"`
	Name      string        `setting:"name"`
}

// Settings arrive as the author's type (RC-21).
func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]string
		want   settings
		err    string
	}{
		"given values and defaults": {
			map[string]string{
				"approvers": "me, you,", "strict": "true", "share": "0.5", "gateway": "10.0.0.1", "name": "x", "least": "7",
				"of another handler": "y",
			},
			settings{
				Approvers: []string{"me", "you"}, Patience: 30 * time.Second, Strict: true, Most: 3, Least: 7, Share: 0.5,
				Gateway: netip.MustParseAddr("10.0.0.1"), Name: "x",
			}, "",
		},
		"a missing setting": {nil, settings{}, `setting "approvers" is missing`},
		"an invalid duration": {map[string]string{"approvers": "a", "patience": "secret"}, settings{},
			`setting "patience" must be a duration`},
		"a number too large": {map[string]string{"approvers": "a", "most": "128"}, settings{},
			`setting "most" must be a whole number of 8 bits`},
		"a negative number": {map[string]string{"approvers": "a", "least": "-1"}, settings{}, `not negative`},
		"an invalid address": {map[string]string{"approvers": "a", "gateway": "secret"}, settings{},
			`setting "gateway" is not valid`},
		"an invalid boolean and an invalid number": {
			map[string]string{"approvers": "a", "strict": "secret", "share": "secret"}, settings{},
			`setting "strict" must be true or false, setting "share" must be a number`,
		},
	} {
		got, err := server.Settings[settings](c.values)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error is %v, want one with %q and without the value (RX-28)", name, err, c.err)
			}
			t.Attr("rule", "RX-28")
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		t.Attr("rule", "RC-21")
	}
}

func TestHandlersGetSettings(t *testing.T) {
	s := newServer(t, server.HandleSettings(hook.BeforeClusterCreate, "gate",
		func(_ context.Context, s settings, _ *createRequest, response *createResponse) error {
			response.Message = fmt.Sprint(s.Approvers, s.Patience)
			return nil
		}))
	if w := post(s, createPath, `{"settings":{"approvers":"me"}}`); !strings.Contains(w.Body.String(),
		`"message":"[me] 30s"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(s, createPath, `{}`); !strings.Contains(w.Body.String(), `"status":"Failure"`) ||
		!strings.Contains(w.Body.String(), `approvers`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSettingsThatCanNotWorkAreReported(t *testing.T) {
	handle := func(h server.Handler) error {
		_, err := server.New(server.Options{}, h)
		return err
	}
	type withoutTag struct{ A string }
	type hidden struct {
		a string `setting:"a"`
	}
	type twice struct {
		A string `setting:"a"`
		B string `setting:"a"`
	}
	type map_ struct {
		A map[string]string `setting:"a"`
	}
	type badDefault struct {
		A int `setting:"a" default:"x"`
	}
	type both struct {
		A int `setting:"a,required" default:"1"`
	}
	type option struct {
		A int `setting:"a,maybe"`
	}
	_ = hidden{a: ""}
	for want, err := range map[string]error{
		"must be a struct":         handle(settingsHandler[string]()),
		"has no tag":               handle(settingsHandler[withoutTag]()),
		"is not exported":          handle(settingsHandler[hidden]()),
		"two fields":               handle(settingsHandler[twice]()),
		"a setting can't be a map": handle(settingsHandler[map_]()),
		"its default":              handle(settingsHandler[badDefault]()),
		"is required and has":      handle(settingsHandler[both]()),
		"unknown option":           handle(settingsHandler[option]()),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	if err := handle(server.HandleSettings[settings](hook.BeforeClusterCreate, "gate", nil)); err == nil {
		t.Error("a nil function was accepted")
	}
}

func settingsHandler[T any]() server.Handler {
	return server.HandleSettings(hook.BeforeClusterCreate, "gate",
		func(context.Context, T, *createRequest, *createResponse) error { return nil })
}
