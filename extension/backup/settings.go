package backup

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/runtime/server"
)

// Names of settings.
const (
	SettingDirectory     = "backup.directory"
	SettingKeep          = "backup.keep"
	SettingMaxAge        = "backup.max-age"
	SettingFreshFor      = "backup.fresh-for"
	SettingBeforeUpgrade = "backup.before-upgrade"
	SettingBeforeDelete  = "backup.before-delete"
)

// Settings of the handlers.
type Settings struct {
	// Directory is where backups are kept; without one there are none.
	Directory string `setting:"backup.directory"`
	// Keep and MaxAge are the retention of each cluster's backups.
	Keep   int           `setting:"backup.keep" default:"5"`
	MaxAge time.Duration `setting:"backup.max-age" default:"720h"`
	// FreshFor is how old the backup before an upgrade may be when the upgrade goes on: another extension may hold it for days.
	FreshFor time.Duration `setting:"backup.fresh-for" default:"1h"`
	// BeforeUpgrade and BeforeDelete switch the two moments.
	BeforeUpgrade bool `setting:"backup.before-upgrade" default:"true"`
	BeforeDelete  bool `setting:"backup.before-delete" default:"true"`
}

// ReadSettings reads and checks the settings in an ExtensionConfig. Others than those of this package are left alone.
func ReadSettings(values map[string]string) (Settings, error) {
	s, err := server.Settings[Settings](values)
	if err != nil {
		return s, err
	}
	switch {
	case s.Directory != "" && !filepath.IsAbs(s.Directory):
		return s, errors.New(`setting "backup.directory" must be an absolute path`)
	case s.Keep < 1 || s.Keep > maxBackups/2:
		return s, errors.New(`setting "backup.keep" must be between 1 and 500`)
	case s.MaxAge < 0:
		return s, errors.New(`setting "backup.max-age" must not be negative; 0s keeps backups whatever their age`)
	case s.FreshFor < time.Minute:
		return s, errors.New(`setting "backup.fresh-for" must be at least 1m`)
	}
	return s, nil
}
