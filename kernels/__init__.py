"""Operations, their variants, and the devices and libraries that variants run on."""
