package backup

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Place is a bucket in an S3-compatible store.
type Place struct {
	// Endpoint is https://HOST[:PORT]. Use http only for stores on the same machine; it needs Insecure.
	Endpoint string
	// Bucket is the name of the bucket, Region its region, Prefix the prefix of all object names (may be empty).
	Bucket, Region, Prefix string
	// Insecure allows http. Anybody on the network path can then read the backups, which contain all Secrets of a
	// cluster.
	Insecure bool
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	prefixName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// check returns an error if the place is invalid. A valid place needs no escaping in URLs.
func (p Place) check() error {
	if err := checkEndpoint(p.Endpoint); err != nil {
		return fmt.Errorf("endpoint %q: %w", p.Endpoint, err)
	}
	switch {
	case strings.HasPrefix(p.Endpoint, "http:") && !p.Insecure:
		return fmt.Errorf("endpoint %s: backups contain all Secrets of a cluster, so http needs to be allowed (%s)",
			p.Endpoint,
			settingInsecure)
	case !bucketName.MatchString(p.Bucket):
		return fmt.Errorf("%q is not the name of a bucket", p.Bucket)
	case !regionName.MatchString(p.Region):
		return fmt.Errorf("%q is not a region", p.Region)
	}
	return checkPrefix(p.Prefix)
}

func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it must be https://HOST or https://HOST:PORT")
	}
	return nil
}

func checkPrefix(text string) error {
	if text != "" && (len(text) > 200 || !prefixName.MatchString(text)) {
		return errors.New("a prefix is made of letters, digits, dots, dashes and slashes between them")
	}
	return nil
}
