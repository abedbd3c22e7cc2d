package work

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// keyHeld is the key of the notes that identify the claim of a machine on the host. A host that has moved between
// management clusters has several notes about the same machine.
const keyHeld = "held by"

// held identifies the claim with which a machine took the host: by the UID of the CapstanHost, and by the CapstanHost's
// epoch at that time.
type held struct {
	UID   types.UID             `json:"uid"`
	Epoch int64                 `json:"epoch"`
	Proof v1beta2.CleaningProof `json:"proof,omitempty"`
}

// noteHeld records the claim with which a journal's machine took the host. A host that has moved to another management
// cluster has another UID there, and gets another note.
func noteHeld(j *journal.Journal, host *v1beta2.CapstanHost) error {
	if host == nil || host.Spec.Claim == nil || host.Spec.Claim.ProviderID != j.Claim() {
		return nil
	}
	value, err := json.Marshal(held{UID: host.UID, Epoch: host.Spec.Epoch, Proof: host.Spec.Claim.Proof})
	if err != nil {
		return err
	}
	return j.Note(keyHeld, string(value))
}

// heldBy returns the notes of a journal that identify the claim of its machine.
func heldBy(v *journal.View) (notes []held) {
	for _, value := range v.Notes(keyHeld) {
		var h held
		if json.Unmarshal([]byte(value), &h) == nil {
			notes = append(notes, h)
		}
	}
	return notes
}

// fate is what happens to the remains of an earlier machine on the host.
type fate string

const (
	// heldBack: it is unknown whether the claim has ended. Nothing is cleaned, and nothing else may run.
	heldBack fate = "held back"
	// toClean: the claim has ended.
	toClean fate = "clean"
	// toForget: the agent has cleaned the host, and somebody has accepted what is left.
	toForget fate = "forget"
)

// fateOf decides what happens to the machine of a journal that does not belong to the host's present claim.
//
// A missing claim does not prove that the claim has ended, because a management cluster may have been restored from a
// backup that is older than the claim. Three things prove that it has ended: a later epoch, which begins only when a
// claim ends; another CapstanHost of the same name, registered since; or acceptance by an administrator.
func fateOf(v *journal.View, host *v1beta2.CapstanHost) fate {
	if host == nil || host.Spec.Supplier != "" {
		return heldBack
	}
	accepted := host.Annotations[v1beta2.AcceptAnnotation] == v.Claim() ||
		host.Annotations[v1beta2.AcceptedAnnotation] == v.Claim()
	cleaned, _ := v.Cleaned()
	switch {
	case accepted && cleaned:
		return toForget
	case accepted || ended(heldBy(v), host):
		return toClean
	default:
		return heldBack
	}
}

// ended reports whether the noted claim has ended. Journals of earlier versions contain no note. Then it is unknown
// whether the claim has ended, and the result is false.
func ended(notes []held, host *v1beta2.CapstanHost) bool {
	here := slices.DeleteFunc(slices.Clone(notes), func(h held) bool { return h.UID != host.UID })
	if len(here) == 0 {
		return len(notes) > 0
	}
	return !slices.ContainsFunc(here, func(h held) bool { return h.Epoch >= host.Spec.Epoch })
}

// next returns the task for the host, according to its API object. Cleaning up after earlier machines comes first: a
// host whose claim ended while its agent was away must neither get another machine nor count as free before it is
// clean. If it can't be cleaned, a machine that claims it anyway fails.
func (w *Worker) next(host *v1beta2.CapstanHost) (task, error) {
	t := wanted(host)
	if t.kind == cleaning { // it cleans up after all machines
		return t, nil
	}
	views, err := journal.Look(w.config.JournalDir())
	if err != nil {
		return t, err
	}
	var kept []*journal.View
	for _, v := range views {
		if v.IsOf(t.claim) || !v.Carries() {
			kept = append(kept, v)
			continue
		}
		cleaned, _ := v.Cleaned()
		switch fateOf(v, host) {
		case toClean:
			if !cleaned || t.kind != bootstrapping {
				return task{fencing, v.Claim()}, nil
			}
		case toForget:
			w.log.Info("the leftovers of a machine were accepted", "claim", v.Claim())
			if err := v.Remove(); err != nil {
				return t, err
			}
			continue
		}
		kept = append(kept, v)
	}
	w.showCarried(kept, host)
	return t, nil
}

// showCarried reports which machine is still on the host and, if the host looks free, why nobody has cleaned it.
func (w *Worker) showCarried(views []*journal.View, host *v1beta2.CapstanHost) {
	w.report.Update(true, func(r *v1beta2.AgentReport) {
		r.Carries = carried(views)
		if r.Carries == "" || host == nil || host.Spec.Claim != nil || host.Spec.Supplier != "" ||
			r.Cleaning != nil && r.Cleaning.ProviderID == r.Carries {
			return
		}
		r.Cleaning = &v1beta2.CleaningReport{
			ProviderID: r.Carries, Done: true,
			Leftovers: []string{"the machine itself: the management cluster does not confirm that its claim has ended"},
		}
	})
}

// unknownMachine is reported if the journals can't be read.
const unknownMachine = "unknown"

// Carries returns the providerID of the machine that has left something on the host, according to the journals in a
// directory; empty if there is none.
func Carries(dir string) string {
	views, err := journal.Look(dir)
	if err != nil {
		return unknownMachine
	}
	return carried(views)
}

func carried(views []*journal.View) string {
	for _, v := range views {
		switch {
		case !v.Carries():
		case v.IsOf(v.Claim()):
			return v.Claim()
		default:
			return unknownMachine
		}
	}
	return ""
}
