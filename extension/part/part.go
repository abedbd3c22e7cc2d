// Package part says what a part of the extension is: it has a name, settings and handlers, and is switched on and off
// by itself.
//
// A part answers hooks with an [Answer]: what it found, and whether the Cluster has to wait. It does not see Clusters
// that it is switched off for. [Handlers] and [Settings] compose parts.
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
	// Name of the part, for example "capacity".
	Name string
	// Off means that it is off unless a label or the settings say otherwise.
	Off bool
	// Settings besides "<name>.enabled".
	Settings []setting.Setting
	// Handlers of the part. Make each with [Handle].
	Handlers []Handler
	// Close stops what the part does besides calls, and waits for that. It may be called twice. Nil: there is nothing
	// to stop.
	Close func()
}

// Func answers a hook for a Cluster that the part is on for. It gets checked settings besides the request. An error is
// a Failure: its text ends in conditions (see server.Func).
type Func[Req any] func(ctx context.Context, settings setting.Values, request *Req) (Answer, error)

// Answer is what a part says to a hook. The zero value lets the Cluster go on without a word.
type Answer struct {
	finding.Finding
	// RetryAfter holds the Cluster, and says how soon it is asked about again. Zero: it goes on.
	RetryAfter time.Duration
}

// Pass lets a Cluster go on.
func Pass(found finding.Finding) Answer { return Answer{Finding: found} }

// Hold makes a Cluster wait. A pause below a second is one second.
func Hold(pause time.Duration, found finding.Finding) Answer {
	return Answer{Finding: found, RetryAfter: max(pause, time.Second)}
}

// Err returns nil if the Cluster goes on, else what makes a server answer that it waits.
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

// Handlers returns the handlers of all parts, in their order. log gets a line, with the reason, for each Cluster that
// is held.
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
