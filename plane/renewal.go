//go:build linux

package plane

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/plane/progress"
)

const (
	// renewalPause is the time between two checks of the certificates. It does not depend on when the next one expires,
	// because a machine may sleep.
	renewalPause = time.Minute
	// authorityNotice is how long in advance the plane warns that an authority expires.
	authorityNotice = 365 * 24 * time.Hour
)

// Subjects of warnings.
const (
	aboutCertificates = "certificates"
	aboutAuthority    = "authority"
)

// directory returns the directory of the certificates.
func (p *plane) directory() pki.Directory {
	return pki.Directory{Path: filepath.Join(p.Dir, pkiDir), Lifetime: p.opts.LeafLifetime}
}

// renew renews certificates before they expire, until ctx ends. All users of a certificate read its files again: the
// API server and client-go clients when the files change; etcd, the webhooks and the extension at each connection.
func (p *plane) renew(ctx context.Context) error {
	pause := renewalPause
	if p.opts.LeafLifetime > 0 {
		pause = min(pause, p.opts.LeafLifetime/30)
	}
	directory := p.directory()
	directory.KeepKeys = true
	present := p.PKI
	for {
		next, err := p.renewOnce(directory, present)
		if err != nil {
			klog.Background().Error(err, "Certificates of the plane were not renewed; the plane will try again", "pause", pause)
		}
		present = next
		p.warnOfEnds(present, err)
		if backoff.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// renewOnce renews the certificates that near their expiry. It returns all certificates or, if it fails, previous.
func (p *plane) renewOnce(directory pki.Directory, previous *pki.Plane) (*pki.Plane, error) {
	now, err := pki.Ensure(directory, p.opts.Hosts)
	if err != nil {
		return previous, err
	}
	renewed := now.Renewed(previous)
	if len(renewed) == 0 {
		return now, nil
	}
	klog.Background().Info("Certificates of the plane were renewed", "names", renewed)
	if p.opts.Renewed != nil {
		if err := p.opts.Renewed(p.Info); err != nil {
			return previous, err // so that Renewed is called again
		}
	}
	return now, nil
}

// warnOfEnds records when certificates expire, and warns of those that nothing will renew in time. failure says why
// they could not be renewed.
func (p *plane) warnOfEnds(keys *pki.Plane, failure error) {
	leaf, authority := keys.Ends()
	if state := p.progress.State(); !state.CertificatesEnd.Equal(leaf) || !state.AuthorityEnds.Equal(authority) {
		_ = p.progress.Update(func(s *progress.State) { // a full disk must not stop the plane
			s.CertificatesEnd, s.AuthorityEnds = leaf.UTC(), authority.UTC()
		})
	}
	p.progress.Warn(aboutCertificates, certificateWarning(leaf, failure))
	p.progress.Warn(aboutAuthority, authorityWarning(authority, time.Now(), filepath.Join(p.Dir, pkiDir)))
}

// certificateWarning returns the warning about certificates that could not be renewed. Pure.
func certificateWarning(end time.Time, failure error) string {
	if failure == nil {
		return ""
	}
	return fmt.Sprintf("certificates of the plane expire on %s and could not be renewed: %v", end.Format(time.DateOnly),
		failure)
}

// authorityWarning returns the warning about an authority that nears its expiry. Pure.
func authorityWarning(end, now time.Time, directory string) string {
	if now.Add(authorityNotice).Before(end) {
		return ""
	}
	return fmt.Sprintf("the authority of the plane expires on %s, and the plane stops working then; before that, run "+
		"\"capstan down\", "+
		"remove %s and run \"capstan up\", which creates a new authority: hosts then have to enroll again, and earlier "+
		"kubeconfigs of the plane stop working", end.Format(time.DateOnly), directory)
}

// rereadSoon makes clients in this process notice renewed short-lived certificates in time. By default they check every
// five minutes.
func rereadSoon(lifetime time.Duration) {
	if lifetime > 0 {
		transport.CertCallbackRefreshDuration = min(transport.CertCallbackRefreshDuration, lifetime/30)
	}
}
