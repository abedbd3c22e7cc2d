package inside

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/local/enrol"
	"github.com/capstan-dev/capstan/local/nodebundle"
	"github.com/capstan-dev/capstan/plane/pki"
)

// addEnrolment adds the enrolment server if other computers reach the plane.
func (s *server) addEnrolment(mgr ctrl.Manager) error {
	if !s.Listen.Everybody() {
		return nil
	}
	block, _ := pem.Decode(mgr.GetConfig().CAData)
	if block == nil {
		return errors.New("serving enrolments: the authority of the plane is not PEM")
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("serving enrolments: the authority of the plane: %w", err)
	}
	keys := filepath.Join(s.home.Plane(), "pki")
	hosts := &enrol.Hosts{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Server: s.Listen.Server(), CAData: mgr.GetConfig().CAData,
		Clock: clock.RealClock{},
	}
	returns := &enrol.Returns{Hosts: hosts, Keys: func() ([]any, error) {
		return keyutil.PublicKeysFromFile(filepath.Join(keys, "service-accounts.crt"))
	}}
	server := enrol.New(enrol.Options{
		Enroll: hosts.Enroll, Return: returns.Return,
		// Use the API server's certificate, so that hosts need only one name and one authority. Read it for each
		// connection (ADR 27).
		Certificate: pki.Pair{
			CertFile: filepath.Join(keys, "apiserver.crt"), KeyFile: filepath.Join(keys, "apiserver.key"),
		}.Current,
		Known: hosts.Known, Bundle: nodebundle.Store{Dir: s.home.NodeBundles()}.Open,
		BundleBandwidth: s.Bundles.Bandwidth,
		Authority:       authority, Binaries: string(s.bin), URL: s.Listen.Enrolment(), Version: s.Version,
		Log: slog.New(logr.ToSlogHandler(klog.Background().WithName("enrolment"))),
	})
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", local.EnrolPort))
		if err != nil {
			return fmt.Errorf("serving enrolments: %w", err)
		}
		return server.Serve(ctx, l)
	}))
}
