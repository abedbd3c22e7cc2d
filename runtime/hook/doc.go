// Package hook defines what a runtime hook is, and holds those of Cluster API.
//
// A hook is a value whose type contains the types of its request and its response:
//
//	hook.BeforeClusterCreate // Hook[BeforeClusterCreateRequest, BeforeClusterCreateResponse]
//
// Cluster API's hooks are variables of this package. A provider makes its own with [Define], or with [Of] if it
// publishes hooks as functions the way Cluster API does. [NewCatalog] builds a [Catalog] from such values. It returns
// an error for inconsistent ones and never panics. Two hooks that share types stay two hooks.
//
// An older version of a hook stays callable through [Serves]. It takes both conversions, so the type system enforces
// rule 2 of the contract (RS-03, RS-04). [About] registers when a version was introduced, when it was deprecated and
// what replaces it; a catalog refuses facts that break rule 3 (RS-05) or rule 4 (RS-06).
//
// Ids such as RX-06 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package hook
