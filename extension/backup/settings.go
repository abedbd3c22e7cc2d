package backup

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/extension/setting"
)

// Names of settings.
const (
	settingKeep     = "backup.keep"
	settingMaxAge   = "backup.max-age"
	settingFreshFor = "backup.fresh-for"
	settingTimeout  = "backup.timeout"
)

// Settings gives what an ExtensionConfig may say about backups, whatever they are taken for.
func Settings() []setting.Setting {
	return []setting.Setting{
		{
			Name: settingKeep, Default: "5", Allowed: "a number between 1 and 500", Check: checkKeep,
			Does: "How many backups of a cluster are kept, of those that hooks have asked for.",
		},
		{
			Name: settingMaxAge, Default: "720h", Allowed: "a duration, such as 720h, or 0s for ever", Check: checkDuration(0, 0),
			Does: "For how long they are kept; the newest one stays whatever its age.",
		},
		{
			Name: settingFreshFor, Default: "1h", Allowed: "a duration of 1m or more", Check: checkDuration(time.Minute, 0),
			Does: "How old the backup for an upgrade or a deletion may be when it goes on: something else may hold it for days.",
		},
		{
			Name: settingTimeout, Default: "10m", Allowed: "a duration between 10s and 2h", Check: checkDuration(10*time.Second, 2*time.Hour),
			Does: "How long one try may take.",
		},
	}
}

// Policy says how backups are taken and kept.
type Policy struct {
	// Retention of those that hooks have asked for.
	Retention Retention
	// FreshFor is how old a backup may be that an upgrade goes on with.
	FreshFor time.Duration
	// Timeout bounds one try.
	Timeout time.Duration
	// GoOn lets an upgrade or a deletion go on without a backup after three tries have failed. Else it waits.
	GoOn bool
}

// ReadPolicy reads settings that were checked by those of [Settings].
func ReadPolicy(values setting.Values) (Policy, error) {
	var p Policy
	var errs []error
	number, err := strconv.Atoi(values[settingKeep])
	errs = append(errs, err)
	p.Retention.Keep = number
	for name, to := range map[string]*time.Duration{settingMaxAge: &p.Retention.MaxAge, settingFreshFor: &p.FreshFor, settingTimeout: &p.Timeout} {
		*to, err = time.ParseDuration(values[name])
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("reading the settings of backups: %w", err)
	}
	return p, nil
}

func checkKeep(value string) error {
	n, err := strconv.Atoi(value)
	if err == nil && (n < 1 || n > maxBackups/2) {
		err = errors.New("it is out of range")
	}
	return err
}

// checkDuration checks for a duration of at least least and at most most; 0 means any.
func checkDuration(least, most time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return errors.New("it is no duration")
		case d < least, most > 0 && d > most:
			return errors.New("it is out of range")
		}
		return nil
	}
}
