// Package apiserver starts a real API server for tests: etcd, kube-apiserver and, if asked for, kube-controller-manager
// of the Kubernetes bundle that "make kube" builds.
package apiserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout limits the start of each part.
const startTimeout = 2 * time.Minute

// Options say what to start. The zero value is a bare API server.
type Options struct {
	// CRDs are the CustomResourceDefinitions to install. If a definition has several versions, only the stored one may be
	// used.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Converted are further CustomResourceDefinitions to install. The API server calls Server.Webhooks, path /convert, to
	// convert their versions.
	Converted []*apiextensionsv1.CustomResourceDefinition
	// Policies says whether to install Capstan's admission policies. They are in effect when Start returns.
	Policies bool
	// AuditLog is the path of a log that names every request, without bodies. If it is empty, there is no log.
	AuditLog string
	// Controllers are the controllers of kube-controller-manager to run, for example clusterrole-aggregation-controller.
	// If there are none, kube-controller-manager isn't started.
	Controllers []string
}

// Server is a running API server.
type Server struct {
	// Config is the configuration of an administrator.
	Config *rest.Config
	// Webhooks says where to serve webhooks and with which certificate; Start doesn't serve them.
	Webhooks envtest.WebhookInstallOptions
	// Kubeconfig is the content of an administrator's kubeconfig file.
	Kubeconfig []byte

	env         *envtest.Environment
	controllers *exec.Cmd
	dir         string
}

// Start starts a server in a directory of its own. The caller must call Stop, also after an error.
func Start(options Options) (*Server, error) {
	s := &Server{}
	return s, s.start(options)
}

func (s *Server) start(options Options) (err error) {
	kube, err := Bundle()
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "capstan-apiserver-"); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		if err := os.Symlink(kube, filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	s.env = &envtest.Environment{
		BinaryAssetsDirectory: s.dir, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
	}
	if err := s.keep(); err != nil {
		return err
	}
	// kubeadm and Capstan's plane set this value, too. Admission policies compare it with the audience of a token.
	s.env.ControlPlane.GetAPIServer().Configure().
		Set("service-account-issuer", "https://kubernetes.default.svc.cluster.local")
	port, err := restartablePort()
	if err != nil {
		return err
	}
	listen := &s.env.ControlPlane.GetAPIServer().SecureServing.ListenAddr
	listen.Address, listen.Port = "127.0.0.1", strconv.Itoa(port)
	if err := s.audit(options.AuditLog); err != nil {
		return err
	}
	if s.Config, err = s.env.Start(); err != nil {
		return fmt.Errorf("starting etcd and kube-apiserver: %w", err)
	}
	admin, err := s.env.AddUser(envtest.User{Name: "test-admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("making an administrator: %w", err)
	}
	if s.Kubeconfig, err = admin.KubeConfig(); err != nil {
		return fmt.Errorf("making an administrator's kubeconfig: %w", err)
	}
	if err := s.Webhooks.PrepWithoutInstalling(); err != nil {
		return fmt.Errorf("making the certificate of webhooks: %w", err)
	}
	if err := s.define(options); err != nil {
		return err
	}
	if options.Policies {
		if err := Admit(s.Config); err != nil {
			return err
		}
	}
	return s.control(options.Controllers)
}

// keep makes the servers write below the directory, which Stop removes. If they chose directories themselves, each
// failed start would leave one behind.
func (s *Server) keep() error {
	etcd, api := &s.env.ControlPlane.Etcd, s.env.ControlPlane.GetAPIServer()
	if *etcd == nil {
		*etcd = &envtest.Etcd{}
	}
	(*etcd).DataDir, api.CertDir = filepath.Join(s.dir, "etcd-data"), filepath.Join(s.dir, "certificates")
	return errors.Join(os.Mkdir((*etcd).DataDir, 0o700), os.Mkdir(api.CertDir, 0o700))
}

// TokenKeys returns the paths of two files: the private key that signs tokens of service accounts, and its public half.
func (s *Server) TokenKeys() (private, public string) {
	dir := s.env.ControlPlane.GetAPIServer().CertDir
	return filepath.Join(dir, "sa-signer.key"), filepath.Join(dir, "sa-signer.crt")
}

// User returns the configuration of a user without rights.
func (s *Server) User(name string) (*rest.Config, error) {
	user, err := s.env.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		return nil, fmt.Errorf("making user %s: %w", name, err)
	}
	return user.Config(), nil
}

// audit makes the server write an audit log.
func (s *Server) audit(path string) error {
	if path == "" {
		return nil
	}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	const text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		return err
	}
	s.env.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", path).Set("audit-log-mode", "blocking")
	return nil
}

// define installs the definitions.
func (s *Server) define(options Options) error {
	url := fmt.Sprintf("https://%s:%d/convert", s.Webhooks.LocalServingHost, s.Webhooks.LocalServingPort)
	for _, crd := range options.Converted {
		if len(crd.Spec.Versions) < 2 {
			continue
		}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: s.Webhooks.LocalServingCAData},
				ConversionReviewVersions: []string{"v1"},
			},
		}
	}
	crds := slices.Concat(options.CRDs, options.Converted)
	if len(crds) == 0 {
		return nil
	}
	if err := envtest.CreateCRDs(s.Config, crds); err != nil {
		return fmt.Errorf("installing definitions: %w", err)
	}
	wait := envtest.CRDInstallOptions{MaxTime: startTimeout, PollInterval: 50 * time.Millisecond}
	if err := envtest.WaitForCRDs(s.Config, crds, wait); err != nil {
		return fmt.Errorf("waiting for definitions to be served: %w", err)
	}
	return nil
}

// control starts kube-controller-manager.
func (s *Server) control(controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, s.Kubeconfig, 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "kube-controller-manager.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.controllers = exec.Command(filepath.Join(s.dir, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig, "--controllers="+strings.Join(controllers, ","), "--leader-elect=false",
		"--secure-port=0",
		"--use-service-account-credentials=false", "--kube-api-qps=100", "--kube-api-burst=200")
	s.controllers.Stdout, s.controllers.Stderr = log, log
	if err := s.controllers.Start(); err != nil {
		s.controllers = nil
		return fmt.Errorf("starting kube-controller-manager: %w", err)
	}
	return nil
}

// Stop stops everything and removes the directory.
func (s *Server) Stop() error {
	var errs []error
	if s.controllers != nil {
		errs = append(errs, s.controllers.Process.Kill())
		_ = s.controllers.Wait() // it was killed, so its status is irrelevant
	}
	if s.env != nil {
		errs = append(errs, s.env.Stop())
	}
	errs = append(errs, s.Webhooks.Cleanup())
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// Root returns the root directory of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Bundle returns the path of the capstan-kube binary: the value of CAPSTAN_KUBE if it is set, otherwise the path of the
// default version in bin/bundles.
func Bundle() (string, error) {
	kube := os.Getenv("CAPSTAN_KUBE")
	if kube == "" {
		version, err := os.ReadFile(filepath.Join(Root(), "kube", "DEFAULT_VERSION"))
		if err != nil {
			return "", err
		}
		kube = filepath.Join(Root(), "bin", "bundles", strings.TrimSpace(string(version)), "capstan-kube")
	}
	kube, err := filepath.Abs(kube)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(kube); err != nil {
		return "", fmt.Errorf("a real API server is needed: %w; run make kube first, or set CAPSTAN_KUBE", err)
	}
	return kube, nil
}
