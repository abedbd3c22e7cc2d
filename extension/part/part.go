// Package part defines the parts of the extension. A part has a name, settings and handlers, and can be switched on and
// off separately from the others.
//
// A part answers hooks with an [Answer]: what it found, and whether the Cluster must wait. It never sees Clusters for
// which it is switched off. [Handlers] and [Settings] compose parts.
package part

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Part is one part of the extension.
type Part struct {
	// Name is the name of the part, for example "capacity".
	Name string
	// Off means that the part is off unless a label or the settings switch it on.
	Off bool
	// Settings are the settings of the part other than "<name>.enabled".
	Settings []setting.Setting
	// Handlers are the handlers of the part, created with [Handle] or [HandleResponse].
	Handlers []Handler
	// Close stops the part's background work and waits for it. It may be called twice. It may be nil.
	Close func()
}

// Func answers a hook for a Cluster for which the part is switched on. It receives the validated settings and the
// request. An error becomes a Failure, and its text ends up in conditions (see server.Func).
type Func[Req any] func(ctx context.Context, settings setting.Values, request *Req) (Answer, error)

// Answer is a part's answer to a hook. The zero value lets the Cluster go on without a message.
type Answer struct {
	finding.Finding
	// RetryAfter holds the Cluster until the next call, after this time. Zero lets it go on.
	RetryAfter time.Duration
}

// Pass lets a Cluster go on.
func Pass(found finding.Finding) Answer { return Answer{Finding: found} }

// Hold makes a Cluster wait. A pause below one second becomes one second.
func Hold(pause time.Duration, found finding.Finding) Answer {
	return Answer{Finding: found, RetryAfter: max(pause, time.Second)}
}

// Err returns nil if the Cluster may go on, else an error that makes the server answer that it must wait.
func (a Answer) Err() error {
	if a.RetryAfter <= 0 {
		return nil
	}
	return server.Wait(a.RetryAfter, a.Message)
}

// Settings returns the settings of all parts.
func Settings(parts ...Part) (*setting.Table, error) {
	var all []setting.Setting
	for _, p := range parts {
		all = append(all, setting.Setting{
			Name: enabledSetting(p.Name), Default: strconv.FormatBool(!p.Off), Allowed: "true or false",
			Check: setting.OneOf("true", "false"),
			Does:  fmt.Sprintf("Whether %s is on for Clusters without the label `%s`.", p.Name, Label(p.Name)),
		})
		all = append(all, p.Settings...)
	}
	table, err := setting.NewTable(all...)
	if err != nil {
		return nil, fmt.Errorf("joining the settings of all parts: %w", err)
	}
	return table, nil
}

// Handlers returns the handlers of all parts, in order. log receives a line with the reason for each Cluster that is
// held.
func Handlers(log *slog.Logger, parts ...Part) ([]server.Handler, error) {
	settings, err := Settings(parts...)
	if err != nil {
		return nil, err
	}
	var all []server.Handler
	for _, p := range parts {
		for _, h := range p.Handlers {
			all = append(all, h.of(frame{part: p.Name, settings: settings, log: log}))
		}
	}
	return all, nil
}

// Close closes all parts.
func Close(parts ...Part) {
	for _, p := range parts {
		if p.Close != nil {
			p.Close()
		}
	}
}
