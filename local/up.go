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

// MaxHosts is the largest inventory that Up makes.
const MaxHosts = 200

// UpOptions say what Up starts.
type UpOptions struct {
	// Place is where the plane is; both directories are required.
	Place
	// Hosts is the number of local hosts in the inventory, at most MaxHosts. Zero keeps the number of the last time; the
	// first time it chooses what the machine can hold, 3 to 32.
	Hosts int
	// FeatureGates are the feature gates of Cluster API that differ from those of a plane, by upstream's names. Nil keeps
	// those of the last time; an empty map goes back to those of a plane. A plane that runs with others starts again.
	FeatureGates map[string]bool
	// Listen is where other computers reach the plane, as ADDRESS or ADDRESS:PORT: its API server there, and the server by
	// which hosts enroll at the next port. Nil keeps that of the last time, at first nowhere; an empty text or an address
	// of the loopback interface takes it back.
	Listen *string
	// Names are further names and addresses of the plane in its serving certificate. Nil keeps those of the last time.
	Names []string
	// Metrics is an address of the machine with a port at which the plane's metrics are served, to everybody who reaches
	// it. Nil keeps that of the last time, at first none; an empty text takes it back.
	Metrics *string
	// RotateKeys makes a new key for the Secrets in the plane's etcd, encrypts all of them anew and drops the old key. A
	// plane that runs is stopped for it first; hosts and their clusters go on.
	RotateKeys bool
	// Timeout bounds all of it; default 3 minutes.
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
	// Listen is the URL by which other computers reach the API server, and Enrolment that of the server by which hosts
	// enroll; empty if only this machine reaches the plane.
	Listen, Enrolment string
	// Metrics is where metrics are served, as ADDRESS:PORT; empty: nowhere.
	Metrics string
}

// ErrDockEnded is wrapped by the error of a wait that can't succeed, because the dock has stopped meanwhile.
var ErrDockEnded = hint.Errorf("try again: capstan up", "the dock has ended")

const (
	defaultUpTimeout = 3 * time.Minute
	// maxStarts is how often one Up starts a dock that stops again.
	maxStarts = 3
)

// Up starts the management plane of a home directory in the background and returns when the plane is ready and its
// hosts are registered. A plane that runs already is left as it is, unless another build of capstan started it: then it
// is replaced, and its hosts go on. If a dock runs with the binaries of another directory, nothing is changed. If ctx
// ends first, what was started goes on; [Down] stops it.
func Up(ctx context.Context, o UpOptions) (Plane, error) {
	if o.Hosts < 0 || o.Hosts > MaxHosts {
		return Plane{}, hint.Errorf("choose 1 to 200, or 0 for what the machine can hold", "%d hosts do not work",
			o.Hosts)
	}
	if _, err := gates.Plane().With(o.FeatureGates); err != nil {
		return Plane{}, err // before there is a home directory
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
	kept, err := choose(s.home, choices{
		Hosts: o.Hosts, FeatureGates: o.FeatureGates, Listen: listen, Metrics: metrics,
	})
	if err != nil {
		return Plane{}, err
	}
	s.hosts, s.gates, s.listen, s.freshListen = kept.Hosts, kept.FeatureGates, kept.Listen, o.Listen != nil
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
		o.Progress.note("The dock has ended meanwhile; starting it again.")
	}
}

// accepted refuses to work on a home whose dock runs with other binaries, before anything is chosen or stopped.
func (s *starter) accepted(ctx context.Context) error {
	return explainDock(dock.Accept(ctx, dock.Options{Home: string(s.home), BinDir: string(s.bin)}))
}

// dockIsGone reports whether err comes from a dock that stopped. One that was killed just before answers until its
// last process is gone, and one may be killed at any time.
func dockIsGone(err error) bool {
	return errors.Is(err, ErrDockEnded) || errors.Is(err, ErrNotRunning)
}

// starter is one Up.
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
	// freshListen says that somebody has just chosen where to listen.
	freshListen bool
	// metrics is where metrics are served; freshMetrics says that somebody has just chosen it.
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
	if err := s.progress.step("way to the API server", func(func(string)) (err error) {
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

// forgetEarlierPlane removes what an earlier plane wrote when it was ready: it says nothing about the plane that the
// dock starts now, and a dock that was killed could not remove it.
func (s *starter) forgetEarlierPlane(ctx context.Context) error {
	before, err := Status(ctx, s.place)
	if err != nil {
		return err
	}
	if before.Plane != PhaseStopped {
		return nil
	}
	if err := os.Remove(s.home.Ready()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the sign of an earlier plane: %w", err)
	}
	return nil
}
