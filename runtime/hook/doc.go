// Package hook says what a runtime hook is, and which ones there are.
//
// A hook is a value that carries the types of its request and its response:
//
//	hook.BeforeClusterCreate // Hook[BeforeClusterCreateRequest, BeforeClusterCreateResponse]
//
// Those of Cluster API are variables of this package. A provider makes its own with [Define], or with [Of] if it
// publishes hooks as functions the way Cluster API does. A [Catalog] is built from such values; what does not fit
// together is an error of [NewCatalog], never a panic, and two hooks never collapse into one because they share types.
// An older version of a hook stays callable through [Serves], which takes both conversions: the type system asks for
// what rule 2 of the contract demands. [About] says since when a version exists, when its end was announced and what
// takes its place; a catalog refuses what breaks rules 3 and 4.
package hook
