//! Written packs can be read by piton and libgit2, and damaged ones are not used.

use super::*;
use crate::disk::Disk;

fn id(data: &[u8]) -> ObjectId {
    ObjectFormat::Sha1.name(ObjectType::Blob, data).unwrap()
}

fn contents() -> Vec<Vec<u8>> {
    let mut contents: Vec<Vec<u8>> = (0..300_u32)
        .map(|number| format!("content {number}\n").into_bytes())
        .collect();
    contents.extend([
        Vec::new(),
        vec![7; 3_000_000],
        (0..200_000_u32).flat_map(u32::to_le_bytes).collect(),
    ]);
    contents
}

fn written(folder: &Path) -> PathBuf {
    written_in(folder, ObjectFormat::Sha1)
}

fn written_in(folder: &Path, format: ObjectFormat) -> PathBuf {
    let id = |data: &[u8]| format.name(ObjectType::Blob, data).unwrap();
    let mut writer = PackWriter::begin(folder).unwrap();
    let contents = contents();
    let objects: Vec<_> = contents
        .iter()
        .map(|data| (id(data), ObjectType::Blob, data.as_slice()))
        .collect();
    for object in &pack_all(&objects) {
        writer.add(object).unwrap();
    }
    assert_eq!(writer.read(id(&contents[3])).unwrap().1, contents[3]);
    writer.finish(&Disk::unsynced(), &|_| Ok(())).unwrap()
}

#[test]
fn a_pack_is_read_back_here_and_by_libgit2() {
    for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
        let folder = tempfile::tempdir().unwrap();
        let path = written_in(folder.path(), format);
        let pack = Pack::open(&path.with_extension("idx"), format).unwrap();
        let odb = git2::Odb::new_ext(format.into()).unwrap();
        odb.add_disk_alternate(folder.path().to_str().unwrap())
            .unwrap();
        for data in contents() {
            let id = format.name(ObjectType::Blob, &data).unwrap();
            assert_eq!(pack.read(id), Some((ObjectType::Blob, data.clone())));
            assert_eq!(odb.read(id.into()).unwrap().data(), data);
        }
        assert_eq!((pack.count(), pack.ids().count()), (303, 303));
        let highest = ObjectId::from_bytes(&vec![0xff; format.size()]).unwrap();
        assert!(!pack.holds(ObjectId::zero(format)) && !pack.holds(highest));
        // No temporary file remains.
        assert_eq!(fs::read_dir(folder.path().join("pack")).unwrap().count(), 2);
    }
}

#[test]
fn objects_are_copied_from_one_pack_into_another() {
    let folder = tempfile::tempdir().unwrap();
    let pack = Pack::open(
        &written(folder.path()).with_extension("idx"),
        ObjectFormat::Sha1,
    )
    .unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::begin(other.path()).unwrap();
    for id in pack.ids().step_by(2) {
        writer
            .add(&Packed {
                id,
                bytes: pack.raw(id).unwrap(),
            })
            .unwrap();
    }
    let copied = Pack::open(
        &writer
            .finish(&Disk::unsynced(), &|_| Ok(()))
            .unwrap()
            .with_extension("idx"),
        ObjectFormat::Sha1,
    )
    .unwrap();
    assert_eq!(copied.count(), 152);
    assert!(copied.ids().all(|id| copied.read(id) == pack.read(id)));
}

#[test]
fn a_pack_that_is_not_whole_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let index = path.with_extension("idx");
    let (pack_bytes, index_bytes) = (fs::read(&path).unwrap(), fs::read(&index).unwrap());
    for (file, bytes) in [(&path, &pack_bytes), (&index, &index_bytes)] {
        for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
            fs::remove_file(file).unwrap();
            fs::write(file, &bytes[..cut]).unwrap();
            assert!(
                Pack::open(&index, ObjectFormat::Sha1).is_none(),
                "{} cut to {cut}",
                file.display()
            );
        }
        fs::write(file, bytes).unwrap();
    }
    assert!(Pack::open(&index, ObjectFormat::Sha1).is_some());
    fs::remove_file(&path).unwrap();
    assert!(Pack::open(&index, ObjectFormat::Sha1).is_none());
}

#[test]
fn few_objects_get_no_pack_and_many_get_one() {
    let folder = tempfile::tempdir().unwrap();
    let contents = contents();
    let object = |at: usize| (id(&contents[at]), ObjectType::Blob, contents[at].as_slice());
    let mut gathering = Gathering::default();
    gathering
        .add(&[object(0), object(0)], folder.path())
        .unwrap();
    for at in 1..MANY - 1 {
        gathering.add(&[object(at)], folder.path()).unwrap();
    }
    assert!(gathering.holds(id(&contents[0])) && !folder.path().join("pack").exists());
    gathering.add(&[object(MANY)], folder.path()).unwrap();
    assert!((0..MANY - 1).all(|at| gathering.read(id(&contents[at])).unwrap().1 == contents[at]));
    assert!(matches!(gathering.finish(), Gathered::Pack(_)));
    // A dropped pack leaves nothing.
    assert_eq!(fs::read_dir(folder.path().join("pack")).unwrap().count(), 0);
}
