package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// MaxHosts is the largest inventory that Up creates.
const MaxHosts = 200

// UpOptions are the options of Up.
type UpOptions struct {
	// Place says where the plane is; both directories are required.
	Place
	// Hosts is the number of local hosts in the inventory, at most MaxHosts. Zero keeps the number of the last start;
	// the first start chooses what the machine can hold, 3 to 32.
	Hosts int
	// FeatureGates are the Cluster API feature gates that differ from the plane's defaults, by their upstream names.
	// Nil keeps those of the last start; an empty map restores the defaults. A plane that runs with different gates is
	// restarted.
	FeatureGates map[string]bool
	// Listen is where other computers reach the plane, as ADDRESS or ADDRESS:PORT: the API server there, and the
	// enrolment server at the next port. Nil keeps the address of the last start, initially none; an empty text or a
	// loopback address stops listening.
	Listen *string
	// Names are additional names and addresses in the plane's serving certificate. Nil keeps those of the last start.
	Names []string
	// Metrics is an address and port of this machine at which the plane serves its metrics to everybody who can reach
	// it. Nil keeps that of the last start, initially none; an empty text stops it.
	Metrics *string
	// Bundles changes how owned hosts get the programs of a node. The zero value keeps what was chosen before.
	Bundles BundleOptions
	// RotateKeys creates a new key for the Secrets in the plane's etcd, re-encrypts all of them and drops the old key.
	// A running plane is stopped first; hosts and their clusters keep running.
	RotateKeys bool
	// Timeout bounds the whole operation; default 3 minutes.
	Timeout time.Duration
	// Progress receives the steps. May be nil.
	Progress Progress
}

// Plane is a management plane that is ready.
type Plane struct {
	// Kubeconfig is the path of the user's kubeconfig.
	Kubeconfig string
	// Hosts is the number of local hosts in the inventory.
	Hosts int
	// KubernetesVersion is the version that the plane runs, such as v1.36.3.
	KubernetesVersion string
	// Listen is the URL at which other computers reach the API server, and Enrolment that of the enrolment server;
	// empty if only this machine reaches the plane.
	Listen, Enrolment string
	// Metrics is where metrics are served, as ADDRESS:PORT; empty: nowhere.
	Metrics string
}

// ErrDockEnded is wrapped by the error of a wait that can't succeed because the dock has stopped in the meantime.
var ErrDockEnded = hint.Errorf("try again: capstan up", "the dock has stopped")

const (
	defaultUpTimeout = 3 * time.Minute
	// maxStarts is how often one Up starts a dock that keeps stopping.
	maxStarts = 3
)

// Up starts the management plane of a home directory in the background and returns when the plane is ready and its
// hosts are registered. It leaves a running plane alone, unless another build of capstan started it: then it replaces
// the plane, and its hosts keep running. If a dock runs with binaries from another directory, Up changes nothing and
// fails. If ctx ends first, what Up has started keeps running; [Down] stops it.
func Up(ctx context.Context, o UpOptions) (Plane, error) {
	if o.Hosts < 0 || o.Hosts > MaxHosts {
		return Plane{}, hint.Errorf("choose 1 to 200, or 0 for as many as the machine can hold",
			"the number of hosts can't be %d",
			o.Hosts)
	}
	if _, err := gates.Plane().With(o.FeatureGates); err != nil {
		return Plane{}, err // before the home directory is created
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultUpTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	s, err := newStarter(o)
	if err != nil {
		return Plane{}, err
	}
	note, err := s.home.Prepare()
	if err != nil {
		return Plane{}, err
	}
	if note != "" {
		o.Progress.note(note)
	}
	unlock, err := lockHome(ctx, s.home, o.Progress)
	if err != nil {
		return Plane{}, err
	}
	defer unlock()
	if err := s.accepted(ctx); err != nil {
		return Plane{}, err
	}
	before, err := readChoices(s.home)
	if err != nil {
		return Plane{}, err
	}
	listen, err := o.wantedListen(before.Listen)
	if err != nil {
		return Plane{}, err
	}
	metrics, err := wantedMetrics(o.Metrics, before.Metrics)
	if err != nil {
		return Plane{}, err
	}
	bundles, err := o.Bundles.applied(before.Bundles)
	if err != nil {
		return Plane{}, err
	}
	kept, err := choose(s.home, choices{
		Hosts: o.Hosts, FeatureGates: o.FeatureGates, Listen: listen, Metrics: metrics, Bundles: bundles,
	})
	if err != nil {
		return Plane{}, err
	}
	s.hosts, s.gates, s.listen, s.freshListen = kept.Hosts, kept.FeatureGates, kept.Listen, o.Listen != nil
	s.bundles = kept.Bundles
	s.metrics, s.freshMetrics = kept.Metrics, o.Metrics != nil
	if o.RotateKeys {
		if err := s.rotateKeys(ctx); err != nil {
			return Plane{}, err
		}
	}
	for attempt := 1; ; attempt++ {
		err := s.start(ctx)
		if err == nil {
			return Plane{Kubeconfig: s.home.Kubeconfig(), Hosts: s.hosts, KubernetesVersion: s.version,
				Listen: s.listen.Server(), Enrolment: s.listen.Enrolment(), Metrics: s.metrics}, nil
		}
		if attempt == maxStarts || ctx.Err() != nil || !dockIsGone(err) {
			return Plane{}, err
		}
		o.Progress.note("The dock has stopped meanwhile; restarting it.")
	}
}

// accepted fails if the home's dock runs with other binaries, before anything is chosen or stopped.
func (s *starter) accepted(ctx context.Context) error {
	return explainDock(dock.Accept(ctx, dock.Options{Home: string(s.home), BinDir: string(s.bin)}))
}

// dockIsGone reports whether err comes from a dock that stopped. A dock may be killed at any time, and then still
// answers until its last process is gone.
func dockIsGone(err error) bool {
	return errors.Is(err, ErrDockEnded) || errors.Is(err, ErrNotRunning)
}

// starter is one call of Up.
type starter struct {
	place    Place
	home     home.Dir
	bin      home.Binaries
	progress Progress
	// capstan is the path of the binary that runs as the plane.
	capstan string
	// version is the Kubernetes version that the plane runs.
	version string
	// hosts and gates are set once the home directory is locked.
	hosts  int
	gates  gates.Set
	listen Listen
	// freshListen is set if the user has just chosen where to listen.
	freshListen bool
	bundles     Bundles
	// metrics is where metrics are served; freshMetrics is set if the user has just chosen it.
	metrics      string
	freshMetrics bool
}

// newStarter finds the binaries that a plane and its hosts need.
func newStarter(o UpOptions) (*starter, error) {
	dir, bin, err := o.find()
	if err != nil {
		return nil, err
	}
	if bin == "" {
		return nil, errNoBinaries
	}
	s := &starter{place: Place{Home: string(dir), Binaries: string(bin)}, home: dir, bin: bin, progress: o.Progress}
	if s.capstan, err = bin.Path("capstan"); err != nil {
		return nil, err
	}
	for _, name := range []string{"capstan-dock", "capstan-agent", "capstan-extension"} {
		if _, err := bin.Path(name); err != nil {
			return nil, err
		}
	}
	s.version, err = NewestBundle(string(bin))
	return s, err
}

// start brings everything up once.
func (s *starter) start(ctx context.Context) error {
	if err := s.forgetEarlierPlane(ctx); err != nil {
		return err
	}
	var docked *dock.Client
	if err := s.progress.step("dock started", func(func(string)) (err error) {
		docked, err = dock.Start(ctx, dock.Options{Home: string(s.home), BinDir: string(s.bin)})
		return explainDock(err)
	}); err != nil {
		return err
	}
	defer docked.Close()
	var server string
	if err := s.progress.step("API server relay", func(func(string)) (err error) {
		server, err = docked.EnsureRelay(ctx, planeUnit, "127.0.0.1:"+strconv.Itoa(PlanePort))
		return explainDock(err)
	}); err != nil {
		return err
	}
	if err := s.publish(ctx, docked); err != nil {
		return err
	}
	if err := publishMetrics(ctx, docked, s.metrics, s.freshMetrics, s.progress); err != nil {
		return err
	}
	if err := s.progress.step("management plane ready", func(func(string)) error {
		return s.startPlane(ctx, docked, server)
	}); err != nil {
		return err
	}
	return s.progress.step("inventory registered", func(waiting func(string)) error {
		return s.waitForHosts(ctx, docked, waiting)
	})
}

// publish makes the plane reachable for other computers, or for none.
func (s *starter) publish(ctx context.Context, docked *dock.Client) error {
	if !s.listen.Everybody() {
		return publish(ctx, docked, s.listen, false, s.progress)
	}
	return s.progress.step("listening at "+s.listen.Address, func(func(string)) error {
		return publish(ctx, docked, s.listen, s.freshListen, s.progress)
	})
}

// forgetEarlierPlane removes the file that an earlier plane wrote when it was ready, because the file says nothing
// about the plane that the dock starts now. A dock that was killed could not remove it.
func (s *starter) forgetEarlierPlane(ctx context.Context) error {
	before, err := Status(ctx, s.place)
	if err != nil {
		return err
	}
	if before.Plane != PhaseStopped {
		return nil
	}
	if err := os.Remove(s.home.Ready()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the ready file of an earlier plane: %w", err)
	}
	return nil
}
