package backup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/extension/setting"
)

// Names of settings.
const (
	settingKeep     = "backup.keep"
	settingMaxAge   = "backup.max-age"
	settingFreshFor = "backup.fresh-for"
	settingTimeout  = "backup.timeout"

	settingBucket      = "backup.bucket"
	settingEndpoint    = "backup.endpoint"
	settingRegion      = "backup.region"
	settingPrefix      = "backup.prefix"
	settingCredentials = "backup.credentials"
	settingInsecure    = "backup.insecure"
)

// Settings returns the settings for backups that an ExtensionConfig may contain, whatever the backups are for.
func Settings() []setting.Setting {
	return []setting.Setting{
		{
			Name: settingKeep, Default: "5", Allowed: "a number between 1 and 500", Check: checkKeep,
			Does: "How many of the backups that hooks requested are kept for each cluster. Older backups for the same " +
				"upgrade or deletion are removed first.",
		},
		{
			Name: settingMaxAge, Default: "720h", Allowed: "a duration, such as 720h, or 0s for no limit",
			Check: checkDuration(0, 0),
			Does:  "How long backups that hooks requested are kept. The newest one always stays.",
		},
		{
			Name: settingFreshFor, Default: "1h", Allowed: "a duration of 1m or more", Check: checkDuration(time.Minute, 0),
			Does: "How old a backup may be when the upgrade or deletion continues. If something else blocks the Cluster " +
				"for longer, another backup is taken.",
		},
		{
			Name: settingTimeout, Default: "10m", Allowed: "a duration between 10s and 2h",
			Check: checkDuration(10*time.Second, 2*time.Hour),
			Does:  "How long one attempt to take a backup may last.",
		},
		{
			Name: settingBucket, Allowed: "the name of a bucket",
			Check: emptyOr(func(v string) bool { return bucketName.MatchString(v) }),
			Does: "The bucket of an S3-compatible store in which backups are kept. If the setting is empty, backups are on " +
				"the disk of the process.",
		},
		{
			Name: settingEndpoint, Default: "https://s3.amazonaws.com", Allowed: "https://HOST or https://HOST:PORT",
			Check: checkEndpoint,
			Does:  "The address of the S3-compatible store.",
		},
		{
			Name: settingRegion, Default: "us-east-1", Allowed: "a region",
			Check: emptyOr(func(v string) bool { return regionName.MatchString(v) }),
			Does:  "The region of the bucket.",
		},
		{
			Name: settingPrefix, Allowed: "letters, digits, dots, dashes and slashes", Check: checkPrefix,
			Does: "The prefix of the names of all objects in the bucket.",
		},
		{
			Name: settingCredentials, Allowed: "NAMESPACE/NAME of a Secret", Check: emptyOr(isSecretName),
			Does: "The Secret for access to the bucket, with `access-key-id`, `secret-access-key` and, if a private " +
				"authority signed the store's certificate, `ca.crt`.",
		},
		{
			Name: settingInsecure, Default: "false", Allowed: "true or false", Check: setting.OneOf("true", "false"),
			Does: "Whether the endpoint may use http. A backup contains all Secrets of a cluster, and http does not " +
				"encrypt them.",
		},
	}
}

// emptyOr returns a check that also accepts an empty value.
func emptyOr(is func(string) bool) func(string) error {
	return func(value string) error {
		if value != "" && !is(value) {
			return errors.New("it is not")
		}
		return nil
	}
}

func isSecretName(value string) bool {
	namespace, name, found := strings.Cut(value, "/")
	return found && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// Policy says how to take and keep backups.
type Policy struct {
	// Retention applies to backups that hooks request. It removes repeated backups for the same step first.
	Retention Retention
	// FreshFor is the maximum age of a backup with which an upgrade may go on.
	FreshFor time.Duration
	// Timeout limits one attempt.
	Timeout time.Duration
	// Place is the bucket; if it is empty, backups are on the disk of the process. Credentials is the Secret with the
	// bucket's keys.
	Place       Place
	Credentials types.NamespacedName
	// GoOn lets an upgrade or deletion go on without a backup after three failed attempts. Otherwise it waits.
	GoOn bool
}

// ReadPolicy converts settings that the checks of [Settings] have accepted.
func ReadPolicy(values setting.Values) (Policy, error) {
	var p Policy
	var errs []error
	number, err := strconv.Atoi(values[settingKeep])
	errs = append(errs, err)
	p.Retention.Keep = number
	for name, to := range map[string]*time.Duration{
		settingMaxAge: &p.Retention.MaxAge, settingFreshFor: &p.FreshFor, settingTimeout: &p.Timeout,
	} {
		*to, err = time.ParseDuration(values[name])
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("reading the settings of backups: %w", err)
	}
	if values[settingBucket] == "" {
		return p, nil
	}
	p.Place = Place{
		Endpoint: values[settingEndpoint], Bucket: values[settingBucket], Region: values[settingRegion],
		Prefix: values[settingPrefix], Insecure: values[settingInsecure] == "true",
	}
	if err := p.Place.check(); err != nil {
		return p, fmt.Errorf("reading the settings of backups: %w", err)
	}
	namespace, name, found := strings.Cut(values[settingCredentials], "/")
	if !found {
		return p, fmt.Errorf("reading the settings of backups: a bucket needs setting %q, the Secret with its keys",
			settingCredentials)
	}
	p.Credentials = types.NamespacedName{Namespace: namespace, Name: name}
	return p, nil
}

func checkKeep(value string) error {
	n, err := strconv.Atoi(value)
	if err == nil && (n < 1 || n > maxBackups/2) {
		err = errors.New("it is out of range")
	}
	return err
}

// checkDuration returns a check for a duration between a minimum and a maximum. A maximum of 0 means that there is
// none.
func checkDuration(minimum, maximum time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return errors.New("it is not a duration")
		case d < minimum, maximum > 0 && d > maximum:
			return errors.New("it is out of range")
		}
		return nil
	}
}
